// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/hands.h"

#include <algorithm>
#include <system_error>
#include <utility>

namespace foreload {

Hands::Hands(unsigned threads) {
  for (unsigned i = 0; i < std::max(1u, threads); ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
      break;
    }
  }
}

Hands::~Hands() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    jobs_.clear();
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Hands::run(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    jobs_.push_back(std::move(job));
  }
  filled_.notify_one();
}

void Hands::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    filled_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it holds may take a while to let go
    lock.lock();
  }
}

}  // namespace foreload
