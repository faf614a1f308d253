// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/hands.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "foreload/base/own_thread.h"

namespace foreload {

Hands::Hands(unsigned threads) {
  for (unsigned i = 0; i < std::max(1u, threads); ++i) {
    try {
      threads_.push_back(start_own_thread("foreload-hand", [this] { work(); }));
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
    decodes_.clear();
  }
  filled_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Hands::copy(Job job) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    copies_.push_back(std::move(job));
  }
  filled_.notify_one();
}

void Hands::decode(BatchPlace place, DecodeJob job) {
  {
    std::lock_guard lock(mutex_);
    if (stop_) return;
    decodes_.emplace(place, std::move(job));
  }
  filled_.notify_one();
}

Hands::Load Hands::load() const {
  std::lock_guard lock(mutex_);
  return {running_, copies_.size() + decodes_.size()};
}

void Hands::work() {
  Scratch scratch;
  std::unique_lock lock(mutex_);
  while (true) {
    filled_.wait(lock, [this] { return stop_ || !idle(); });
    if (idle()) return;
    Job copy;
    DecodeJob decode;
    if (!copies_.empty()) {
      copy = std::move(copies_.front());
      copies_.pop_front();
    } else {
      decode = std::move(decodes_.begin()->second);
      decodes_.erase(decodes_.begin());
    }
    ++running_;
    lock.unlock();
    if (copy)
      copy();
    else
      decode(scratch);
    copy = nullptr;  // what they hold may take a while to let go
    decode = nullptr;
    lock.lock();
    --running_;
  }
}

}  // namespace foreload
