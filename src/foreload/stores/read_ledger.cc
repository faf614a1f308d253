// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/read_ledger.h"

#include <algorithm>

namespace foreload {

void ReadLedger::add(std::span<const SourceRead> reads) {
  const std::scoped_lock lock(mutex_);
  for (const SourceRead& read : reads) {
    Ref owed = std::make_shared<OwedRead>(read);
    owed->number_ = numbers_++;
    owed_.insert_or_assign(read.id, owed);
    if (read.deadline != SteadyTime::max()) deadlines_.emplace(read.deadline, owed);
    waiting_.push_back(std::move(owed));
    waiting_count_.fetch_add(1, std::memory_order_relaxed);
  }
}

void ReadLedger::ask_cancel(uint64_t id) {
  const std::scoped_lock lock(mutex_);
  const auto found = owed_.find(id);
  if (found != owed_.end()) cancels_.push_back(found->second);
}

ReadLedger::Ref ReadLedger::start() {
  const std::scoped_lock lock(mutex_);
  while (!waiting_.empty()) {
    Ref read = std::move(waiting_.front());
    waiting_.pop_front();
    if (read->answered()) continue;
    read->started_ = true;
    waiting_count_.fetch_sub(1, std::memory_order_relaxed);
    return read;
  }
  return nullptr;
}

void ReadLedger::put_back(const Ref& read) {
  {
    const std::scoped_lock lock(mutex_);
    if (!read->answered()) {
      read->started_ = false;
      const auto later = std::find_if(waiting_.begin(), waiting_.end(), [&read](const Ref& other) {
        return other->number_ > read->number_;
      });
      waiting_.insert(later, read);
      waiting_count_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  finish(read, {});
}

// Takes the read out of everything that leads to an answer.
void ReadLedger::settle(const Ref& read) {
  read->answered_.store(true, std::memory_order_release);
  const auto found = owed_.find(read->read_.id);
  if (found != owed_.end() && found->second == read) owed_.erase(found);
  deadlines_.erase({read->read_.deadline, read});
  if (!read->started_) waiting_count_.fetch_sub(1, std::memory_order_relaxed);
}

void ReadLedger::give(uint64_t id, Outcome outcome) {
  answered_({id, outcome.fault, outcome.error_number, std::move(outcome.what)});
  const std::scoped_lock lock(mutex_);
  if (--giving_ == 0) all_given_.notify_all();
}

bool ReadLedger::finish(const Ref& read, Outcome outcome) {
  // Before the answer, so that the caller finds its memory held by nobody else.
  read->read_.into = {};
  {
    const std::scoped_lock lock(mutex_);
    if (read->answered()) {
      if (std::exchange(read->abandoned_, false)) {
        abandoned_.fetch_sub(1, std::memory_order_relaxed);
      }
      return false;
    }
    settle(read);
    ++giving_;
  }
  give(read->read_.id, std::move(outcome));
  return true;
}

std::vector<ReadLedger::Ref> ReadLedger::answer_due(SteadyTime now) {
  std::vector<std::pair<Ref, Fault>> due;
  {
    const std::scoped_lock lock(mutex_);
    const auto take = [&](const Ref& read, Fault fault) {
      due.emplace_back(read, fault);
      settle(read);
      if (!read->started_) return;
      read->abandoned_ = true;
      abandoned_.fetch_add(1, std::memory_order_relaxed);
    };
    for (const Ref& read : std::exchange(cancels_, {})) {
      if (!read->answered()) take(read, Fault::cancelled);
    }
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      take(Ref(deadlines_.begin()->second), Fault::deadline);
    }
    giving_ += due.size();
  }
  std::vector<Ref> abandoned;
  for (auto& [read, fault] : due) {
    if (!read->started_) read->read_.into = {};
    give(read->read_.id,
         {fault, 0, fault == Fault::cancelled ? "it was cancelled" : "no answer in time"});
    if (read->started_) abandoned.push_back(std::move(read));
  }
  return abandoned;
}

SteadyTime ReadLedger::next_due() const {
  const std::scoped_lock lock(mutex_);
  if (!cancels_.empty()) return SteadyTime::min();
  return deadlines_.empty() ? SteadyTime::max() : deadlines_.begin()->first;
}

void ReadLedger::close() {
  std::vector<Ref> left;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, read] : owed_) left.push_back(read);
    for (const Ref& read : left) {
      settle(read);
      if (!read->started_) continue;
      read->abandoned_ = true;
      abandoned_.fetch_add(1, std::memory_order_relaxed);
    }
    waiting_.clear();
    giving_ += left.size();
  }
  for (const Ref& read : left) {
    give(read->read_.id, {Fault::cancelled, 0, "the source was closed"});
  }
  std::unique_lock lock(mutex_);
  all_given_.wait(lock, [this] { return giving_ == 0; });
}

}  // namespace foreload
