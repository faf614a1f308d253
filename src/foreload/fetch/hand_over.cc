// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/hand_over.h"

#include <utility>

namespace foreload {

HandOver::Ready HandOver::take(std::optional<SteadyTime> until) {
  std::unique_lock lock(mutex_);
  auto there_is = [this] { return drops_done_ == drops_ && !ready_.empty(); };
  if (!until)
    delivered_.wait(lock, there_is);
  else if (!delivered_.wait_until(lock, *until, there_is))
    return {0, fail(ErrorKind::cancelled, "no batch arrived in the time given")};
  Ready& first = ready_.front();
  if (!first.batch) return {first.number, tl::unexpected(first.batch.error())};
  Ready ready = std::move(first);
  ready_.pop_front();
  return ready;
}

void HandOver::drop() {
  decltype(ready_) dropped;  // let go without the lock: their memory may be somebody else's
  const std::lock_guard lock(mutex_);
  ++drops_;
  dropped.swap(ready_);
}

void HandOver::expect(uint64_t fetch, const std::shared_ptr<Ticket>& ticket) {
  const std::lock_guard lock(mutex_);
  tickets_[fetch] = ticket;
}

void HandOver::opened(uint64_t batch) {
  if (!next_) next_ = batch;
}

void HandOver::publish(uint64_t batch, Batch finished) {
  push(batch, std::move(finished));
  next_ = batch + 1;
}

void HandOver::publish_failure() {
  if (failures_.empty() || failures_.begin()->first != next_) return;
  push(failures_.begin()->first, tl::unexpected(failures_.begin()->second));
  next_ = UINT64_MAX;  // nothing comes after it
}

void HandOver::push(uint64_t batch, Result<Batch> result) {
  {
    const std::lock_guard lock(mutex_);
    ready_.push_back({batch, std::move(result)});
  }
  delivered_.notify_one();
}

void HandOver::begin_anew() {
  failures_.clear();
  next_.reset();
  decltype(ready_) dropped;  // as in drop()
  const std::lock_guard lock(mutex_);
  dropped.swap(ready_);
  ++drops_done_;
}

void HandOver::answer(uint64_t fetch, Fetched fetched) {
  std::shared_ptr<Ticket> ticket;
  {
    const std::lock_guard lock(mutex_);
    const auto found = tickets_.find(fetch);
    if (found == tickets_.end()) return;
    ticket = found->second.lock();
    tickets_.erase(found);
  }
  counts_.count([&](EngineStats& stats) {
    stats.fetched_samples += fetched.batch.samples.size() - fetched.errors.size();
    for (const uint64_t bytes : fetched.batch.from_bytes) stats.fetched_bytes += bytes;
  });
  if (ticket) ticket->set(std::move(fetched));
}

void HandOver::forget(uint64_t fetch) {
  const std::lock_guard lock(mutex_);
  tickets_.erase(fetch);
}

uint64_t HandOver::ready() const {
  const std::lock_guard lock(mutex_);
  return ready_.size();
}

void HandOver::close() {
  for (const auto& [number, waiting] : tickets_)
    if (const auto ticket = waiting.lock())
      ticket->set(fail(ErrorKind::cancelled, "the loader is closed"));
}

}  // namespace foreload
