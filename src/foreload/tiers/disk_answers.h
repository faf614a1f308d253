// SPDX-License-Identifier: Apache-2.0
//
// Answers of the disk tier, each exactly once and none after the end, whichever thread comes first:
// the one that did the work, or the one that ends the tier while the system still has it. Also
// where the tier remembers why it turned itself off. Any thread may use them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "foreload/tiers/disk.h"

namespace foreload::disk_cache {

class DiskAnswers {
 public:
  explicit DiskAnswers(DiskTier::Answered answered) : answered_(std::move(answered)) {}

  // A ticket for an operation that must be answered.
  uint64_t expect(uint64_t id) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace(++last_ticket_, id);
    return last_ticket_;
  }

  // Does nothing if the operation was answered already.
  void answer(uint64_t ticket, DiskAnswer answer) {
    uint64_t id = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto found = waiting_.find(ticket);
      if (found == waiting_.end()) return;
      id = found->second;
      waiting_.erase(found);
      ++under_way_;
    }
    answered_(id, answer);
    const std::lock_guard lock(mutex_);
    if (--under_way_ == 0) nothing_under_way_.notify_all();
  }

  // Answers everything that waits; returns when no answer is being given any more.
  void close() {
    std::unique_lock lock(mutex_);
    const auto left = std::exchange(waiting_, {});
    lock.unlock();
    for (const auto& [ticket, id] : left) answered_(id, DiskAnswer::failed);
    lock.lock();
    nothing_under_way_.wait(lock, [this] { return under_way_ == 0; });
  }

 private:
  const DiskTier::Answered answered_;
  std::mutex mutex_;  // guards the rest
  std::condition_variable nothing_under_way_;
  std::unordered_map<uint64_t, uint64_t> waiting_;  // ids by ticket
  uint64_t last_ticket_ = 0;
  uint64_t under_way_ = 0;
};

class DiskHealth {
 public:
  // The first reason counts.
  void die(std::string why) {
    const std::lock_guard lock(mutex_);
    if (!why_) why_ = std::move(why);
    dead_.store(true, std::memory_order_release);
  }
  bool dead() const { return dead_.load(std::memory_order_acquire); }
  std::optional<std::string> why() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  std::atomic<bool> dead_{false};
  mutable std::mutex mutex_;  // guards why_
  std::optional<std::string> why_;
};

}  // namespace foreload::disk_cache
