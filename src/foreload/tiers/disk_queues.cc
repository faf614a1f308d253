// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_queues.h"

#include <algorithm>
#include <utility>

namespace foreload::disk_cache {

void ReadQueue::push(QueuedRead read) {
  {
    const std::lock_guard lock(mutex_);
    (read.read.for_peer ? peers_ : training_).push_back(std::move(read));
  }
  pushed_.notify_one();
  if (wake_) wake_();
}

std::optional<QueuedRead> ReadQueue::take() {
  // A loop that always reads must not make peers wait without end: they would take it for dead.
  constexpr unsigned kAtMostInARow = 3;
  const bool for_peer = !peers_.empty() && (training_.empty() || passed_over_ >= kAtMostInARow);
  std::deque<QueuedRead>& queue = for_peer ? peers_ : training_;
  if (stopped_ || queue.empty()) return std::nullopt;
  passed_over_ = for_peer || peers_.empty() ? 0 : passed_over_ + 1;
  QueuedRead read = std::move(queue.front());
  queue.pop_front();
  if (training_.empty() && peers_.empty()) quiet_.notify_all();
  return read;
}

std::optional<QueuedRead> ReadQueue::pop() {
  std::unique_lock lock(mutex_);
  pushed_.wait(lock, [this] { return stopped_ || !training_.empty() || !peers_.empty(); });
  return take();
}

std::optional<QueuedRead> ReadQueue::try_pop() {
  const std::lock_guard lock(mutex_);
  return take();
}

std::deque<QueuedRead> ReadQueue::drain() {
  const std::lock_guard lock(mutex_);
  std::deque<QueuedRead> left = std::exchange(training_, {});
  for (QueuedRead& read : peers_) left.push_back(std::move(read));
  peers_.clear();
  return left;
}

void ReadQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  pushed_.notify_all();
  quiet_.notify_all();
  if (wake_) wake_();
}

bool ReadQueue::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void ReadQueue::wait_for_quiet(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  quiet_.wait_for(lock, at_most,
                  [this] { return stopped_ || (training_.empty() && peers_.empty()); });
}

void WriteQueue::push(QueuedWrite write) {
  {
    const std::lock_guard lock(mutex_);
    write.refused = bytes_ > 0 && write.write.size > most_bytes_ - std::min(most_bytes_, bytes_);
    if (write.refused) {
      write.write.keeper = nullptr;
      write.write.from = nullptr;
    } else {
      bytes_ += write.write.size;
      pending_.emplace(write.write.sample, Pending{write.write, write.ticket, false});
    }
    queue_.push_back(std::move(write));
  }
  pushed_.notify_one();
}

std::optional<QueuedWrite> WriteQueue::pop(bool now) {
  std::unique_lock lock(mutex_);
  if (!now) pushed_.wait(lock, [this] { return stopped_ || !queue_.empty(); });
  if (queue_.empty()) return std::nullopt;
  QueuedWrite write = std::move(queue_.front());
  queue_.pop_front();
  return write;
}

void WriteQueue::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  pushed_.notify_all();
}

bool WriteQueue::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

std::optional<DiskWrite> WriteQueue::find(uint64_t sample) const {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = pending_.equal_range(sample);
  const Pending* newest = nullptr;
  for (auto i = first; i != last; ++i) {
    if (newest == nullptr || i->second.ticket > newest->ticket) newest = &i->second;
  }
  if (newest == nullptr || newest->dropped) return std::nullopt;
  return newest->write;
}

void WriteQueue::drop(uint64_t sample) {
  const std::lock_guard lock(mutex_);
  const auto [first, last] = pending_.equal_range(sample);
  for (auto i = first; i != last; ++i) i->second.dropped = true;
}

void WriteQueue::finish(const QueuedWrite& write, const std::function<void()>& publish) {
  std::shared_ptr<const void> keeper;  // let go after the lock
  const std::lock_guard lock(mutex_);
  const auto [first, last] = pending_.equal_range(write.write.sample);
  for (auto i = first; i != last; ++i) {
    if (i->second.ticket != write.ticket) continue;
    if (!i->second.dropped && publish) publish();
    keeper = std::move(i->second.write.keeper);
    bytes_ -= write.write.size;
    pending_.erase(i);
    return;
  }
}

}  // namespace foreload::disk_cache
