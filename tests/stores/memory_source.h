// SPDX-License-Identifier: Apache-2.0
//
// The objects of a test as a source that needs no files: one thread, no delays, and objects that
// hang until their deadline and take up a place until then.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "foreload/stores/read_ledger.h"

#include "answers.h"

namespace foreload {

class MemorySource final : public Source {
 public:
  MemorySource(std::shared_ptr<const TestCatalog> objects, unsigned most_in_flight,
               Answered answered)
      : objects_(std::move(objects)),
        most_in_flight_(most_in_flight),
        ledger_(std::move(answered)),
        thread_([this] { run(); }) {}
  ~MemorySource() override {
    ledger_.close();
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    thread_.join();
  }
  MemorySource(const MemorySource&) = delete;
  MemorySource& operator=(const MemorySource&) = delete;

  void submit(std::span<const SourceRead> reads) override {
    ledger_.add(reads);
    notify();
  }
  void cancel(uint64_t id) override {
    ledger_.ask_cancel(id);
    notify();
  }
  uint64_t abandoned() const override { return ledger_.abandoned(); }
  std::string describe() const override { return "memory"; }

 private:
  void notify() {
    const std::scoped_lock lock(mutex_);
    changed_.notify_one();
  }

  void run() {
    std::vector<ReadLedger::Ref> hung;
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      lock.unlock();
      ledger_.answer_due(std::chrono::steady_clock::now());
      std::erase_if(hung, [](const ReadLedger::Ref& owed) { return owed->answered(); });
      while (hung.size() < most_in_flight_) {
        const ReadLedger::Ref owed = ledger_.start();
        if (!owed) break;
        if (objects_->object(owed->read().extent.object).hangs) {
          hung.push_back(owed);
        } else {
          ledger_.finish(owed, copy(owed->read()));
        }
      }
      lock.lock();
      if (stopping_ || (ledger_.waiting() > 0 && hung.size() < most_in_flight_)) continue;
      const SteadyTime next = ledger_.next_due();
      if (next == SteadyTime::max()) {
        changed_.wait(lock);
      } else {
        changed_.wait_until(lock, next);
      }
    }
  }

  Outcome copy(const SourceRead& read) const {
    const TestObject& object = objects_->object(read.extent.object);
    if (object.missing) return {Fault::permanent, ENOENT, "no such object"};
    const uint64_t size = object.bytes.size();
    if (read.extent.length > size || read.extent.offset > size - read.extent.length) {
      return {Fault::permanent, 0, "it is too short"};
    }
    if (read.extent.length == 0) return {};
    uint64_t done = 0;
    for (size_t i = 0; i < read.into.size(); ++i) {
      const uint64_t length = std::min(read.into[i].length, read.extent.length - done);
      std::memcpy(read.into[i].data, object.bytes.data() + read.extent.offset + done, length);
      done += length;
    }
    return {};
  }

  const std::shared_ptr<const TestCatalog> objects_;
  const size_t most_in_flight_;
  ReadLedger ledger_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace foreload
