// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_queues.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace foreload::disk_cache {

void GetQueue::push(std::span<Get> gets, uint64_t first_ticket, Traffic traffic) {
  {
    const std::lock_guard lock(mutex_);
    for (Get& get : gets) {
      const uint64_t bytes = get.into.size();
      queue_.push(traffic, bytes, {std::move(get), first_ticket++});
    }
  }
  if (gets.size() == 1)
    pushed_.notify_one();
  else
    pushed_.notify_all();
  if (wake_) wake_();
}

std::optional<QueuedGet> GetQueue::take() {
  if (stopped_) return std::nullopt;
  if (!cancelled_.empty()) {
    QueuedGet get = std::move(cancelled_.front());
    cancelled_.pop_front();
    return get;
  }
  while (std::optional<QueuedGet> get = queue_.pop()) {
    if (get->turn == nullptr) return get;
    *get->turn = true;
    turn_.notify_all();
  }
  return std::nullopt;
}

std::optional<QueuedGet> GetQueue::pop() {
  std::unique_lock lock(mutex_);
  std::optional<QueuedGet> get;
  pushed_.wait(lock, [&] { return (get = take()) || stopped_; });
  return get;
}

std::optional<QueuedGet> GetQueue::try_pop() {
  const std::lock_guard lock(mutex_);
  return take();
}

std::deque<QueuedGet> GetQueue::drain() {
  const std::lock_guard lock(mutex_);
  std::deque<QueuedGet> left = std::exchange(cancelled_, {});
  while (std::optional<QueuedGet> get = queue_.pop()) {
    if (get->turn == nullptr) left.push_back(std::move(*get));
  }
  return left;
}

void GetQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  pushed_.notify_all();
  turn_.notify_all();
  if (wake_) wake_();
}

bool GetQueue::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void GetQueue::hasten(uint64_t ticket) {
  {
    const std::lock_guard lock(mutex_);
    queue_.cancel([&](QueuedGet& queued) {
      if (queued.ticket != ticket) return false;
      cancelled_.push_back(std::move(queued));
      return true;
    });
  }
  pushed_.notify_one();
  if (wake_) wake_();
}

void GetQueue::wait_for_turn(Traffic traffic, uint64_t bytes) {
  // Readers that are all stuck must not stop the writer, too.
  constexpr std::chrono::milliseconds kAtMost{100};
  std::unique_lock lock(mutex_);
  if (stopped_ || queue_.empty()) return;
  bool turn = false;
  queue_.push(traffic, bytes, {{}, 0, &turn});
  turn_.wait_for(lock, kAtMost, [&] { return turn || stopped_; });
  if (!turn) queue_.cancel([&](const QueuedGet& queued) { return queued.turn == &turn; });
}

void PutQueue::push(std::span<Put> puts, uint64_t first_ticket, DiskIndex::Borrowers borrower,
                    Traffic traffic) {
  {
    const std::lock_guard lock(mutex_);
    for (Put& put : puts) {
      const uint64_t size = put.from.size();
      const auto [same, end] = pending_.equal_range(put.key);
      const bool refused =
          (bytes_ > 0 && size > most_bytes_ - std::min(most_bytes_, bytes_)) ||
          std::any_of(same, end, [](const auto& pending) { return !pending.second.dropped; });
      if (refused) {
        put.keeper = nullptr;
        first_.push_back({std::move(put), first_ticket++, borrower, traffic, true});
        continue;
      }
      bytes_ += size;
      pending_.emplace(put.key, Pending{put, first_ticket, false});
      queue_.push(traffic, size, {std::move(put), first_ticket++, borrower, traffic});
    }
  }
  pushed_.notify_one();
}

std::optional<QueuedPut> PutQueue::pop(bool now) {
  std::unique_lock lock(mutex_);
  if (!now) pushed_.wait(lock, [this] { return stopped_ || !first_.empty() || !queue_.empty(); });
  if (first_.empty()) return queue_.pop();
  QueuedPut put = std::move(first_.front());
  first_.pop_front();
  return put;
}

void PutQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  pushed_.notify_all();
}

bool PutQueue::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void PutQueue::hasten(uint64_t ticket) {
  {
    const std::lock_guard lock(mutex_);
    queue_.cancel([&](QueuedPut& queued) {
      if (queued.ticket != ticket) return false;
      first_.push_back(std::move(queued));
      return true;
    });
  }
  pushed_.notify_one();
}

std::optional<Put> PutQueue::find(const CopyKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = pending_.equal_range(key);
  const auto live =
      std::find_if(first, last, [](const auto& pending) { return !pending.second.dropped; });
  if (live == last) return std::nullopt;
  return live->second.put;
}

void PutQueue::shelter(const Put& put) {
  const std::lock_guard lock(mutex_);
  bytes_ += put.from.size();
  pending_.emplace(put.key, Pending{put, 0, false});
}

void PutQueue::drop(const CopyKey& key) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = pending_.equal_range(key);
  for (auto i = first; i != last; ++i) i->second.dropped = true;
}

void PutQueue::finish(QueuedPut& put, const std::function<void()>& publish) {
  std::shared_ptr<const void> keeper;  // let go after the lock
  const std::shared_ptr<const void> other = std::move(put.put.keeper);
  const std::lock_guard lock(mutex_);
  const auto [first, last] = pending_.equal_range(put.put.key);
  for (auto i = first; i != last; ++i) {
    if (i->second.ticket != put.ticket) continue;
    if (!i->second.dropped && publish) publish();
    keeper = std::move(i->second.put.keeper);
    bytes_ -= put.put.from.size();
    pending_.erase(i);
    return;
  }
}

}  // namespace foreload::disk_cache
