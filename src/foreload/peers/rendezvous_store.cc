// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/rendezvous_store.h"

#include <utility>

#include <fmt/format.h>

namespace foreload::peers {

Result<void> RendezvousStore::put(const std::string& key, const std::string& value) {
  FORELOAD_CHECK(check_sizes(key, value.size()));
  {
    const std::scoped_lock lock(mutex_);
    if (!keep(key, value)) return cannot_put(key);
  }
  wake();
  return {};
}

Result<std::string> RendezvousStore::get(const std::string& key,
                                         std::chrono::milliseconds timeout) {
  FORELOAD_CHECK(check_sizes(key, 0));
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }))
    return *values_.at(key);
  return fail(
      ErrorKind::cancelled,
      fmt::format("{} did not appear in time in the rendezvous that this rank serves", key));
}

bool RendezvousStore::take_question(Asker from, Frame question) {
  if (question.key.empty()) return false;
  const auto nothing = std::make_shared<const std::string>();
  const std::scoped_lock lock(mutex_);
  stop_waiting(from);
  const auto found = values_.find(question.key);
  switch (question.kind) {
    case FrameKind::put: {
      const bool kept = others_put_ && keep(question.key, std::move(question.value));
      answers_.push_back(
          {from, kept ? FrameKind::done : FrameKind::refused, std::move(question.key), nothing});
      return true;
    }
    case FrameKind::get:
    case FrameKind::look:
      if (found != values_.end()) {
        answers_.push_back({from, FrameKind::found, found->first, found->second});
      } else if (question.kind == FrameKind::look) {
        answers_.push_back({from, FrameKind::refused, std::move(question.key), nothing});
      } else {
        waiting_[question.key].insert(from);
        waits_for_[from] = std::move(question.key);
      }
      return true;
    default:
      return false;
  }
}

std::vector<RendezvousStore::Answer> RendezvousStore::take_answers() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(answers_, {});
}

void RendezvousStore::forget(Asker asker) {
  const std::scoped_lock lock(mutex_);
  stop_waiting(asker);
}

bool RendezvousStore::keep(const std::string& key, std::string value) {
  const auto there = values_.find(key);
  // The same again is no harm: a client whose connection broke asks twice.
  if (there != values_.end()) return *there->second == value;
  if (stored_bytes_ + key.size() + value.size() > kMostStoredBytes) return false;
  stored_bytes_ += key.size() + value.size();
  const Value kept =
      values_.emplace(key, std::make_shared<const std::string>(std::move(value))).first->second;
  if (auto waiting = waiting_.extract(key)) {
    for (const Asker asker : waiting.mapped()) {
      waits_for_.erase(asker);
      answers_.push_back({asker, FrameKind::found, key, kept});
    }
  }
  changed_.notify_all();
  return true;
}

void RendezvousStore::stop_waiting(Asker asker) {
  const auto waits = waits_for_.extract(asker);
  if (waits.empty()) return;
  const auto others = waiting_.find(waits.mapped());
  others->second.erase(asker);
  if (others->second.empty()) waiting_.erase(others);
}

}  // namespace foreload::peers
