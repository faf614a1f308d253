// SPDX-License-Identifier: Apache-2.0
//
// Memory tiers for tests, with threads that one can hold.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "foreload/tiers/memory.h"

#include "tier_conformance.h"

namespace foreload {

// Threads that do jobs in the order given, unless they are held.
class TestHands {
 public:
  explicit TestHands(unsigned threads) {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  ~TestHands() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void run(std::function<void()> job) {
    {
      const std::scoped_lock lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }
  void hold(bool held) {
    {
      const std::scoped_lock lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stop_ || (!held_ && !jobs_.empty()); });
      if (jobs_.empty()) return;
      auto job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      job = {};
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool held_ = false;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

inline TierKind memory_kind(const char* name, bool shared) {
  return {name, [shared](uint64_t budget, unsigned at_once) {
            auto hands = std::make_shared<TestHands>(at_once);
            auto opened = open_memory(
                {{budget, shared}, [hands = hands.get()](Traffic, std::function<void()> job) {
                   hands->run(std::move(job));
                 }});
            EXPECT_TRUE(opened) << opened.error().message;
            MemoryCopies& copies = (*opened)->copies();
            return TierAtWork{hands, [hands = hands.get()](bool held) { hands->hold(held); },
                              [&copies](const CopyKey& key, uint64_t offset) {
                                copies.poke(key, offset) ^= std::byte{1};
                              },
                              nullptr, *opened};
          }};
}

}  // namespace foreload
