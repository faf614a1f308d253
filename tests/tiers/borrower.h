// SPDX-License-Identifier: Apache-2.0
//
// What tests of tiers share: copies with known bytes, and a borrower whose answers one can wait
// for.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/base/random.h"
#include "foreload/tiers/tier.h"

namespace foreload {

using Bytes = std::vector<std::byte>;

// Far more than anything here takes, so that a slow machine does not fail a test.
inline constexpr std::chrono::seconds kTierPatience{60};

inline CopyKey key_of(uint64_t number, FormId form = 0) {
  return {{mix64(number + 1), mix64(~number)}, form};
}

// The bytes of a copy are a function of its key and size.
inline Bytes bytes_of(const CopyKey& key, size_t size) {
  Bytes bytes(size);
  const uint64_t seed = key.content.low + mix64(key.form + 1) + size;
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t word = mix64(seed + at);
    std::memcpy(bytes.data() + at, &word, std::min<size_t>(8, size - at));
  }
  return bytes;
}

// A borrower. Its memory is kept with the requests, so that a late answer harms nobody.
class TestBorrower {
 public:
  explicit TestBorrower(Tier& tier) : tier_(tier) {
    id_ = tier.lend([seen = seen_](std::span<const TierAnswer> answers) {
      const std::scoped_lock lock(seen->mutex);
      for (const TierAnswer& answer : answers) {
        if (!seen->first.emplace(answer.id, answer).second) ++seen->repeated;
        seen->order.push_back(answer.id);
      }
      seen->arrived.notify_all();
    });
  }

  // Without waiting; what is asked for gets the number that is returned.
  uint64_t start_put(const CopyKey& key, Bytes bytes, Traffic traffic = Traffic::fill) {
    auto memory = std::make_shared<const Bytes>(std::move(bytes));
    const uint64_t id = next_++;
    // Every other one leaves the checksum to the tier.
    const auto checksum = id % 2 == 0 ? std::optional(checksum64(*memory)) : std::nullopt;
    Put put{id, key, *memory, checksum, memory};
    tier_.submit(id_, std::span(&put, 1), traffic);
    return id;
  }
  uint64_t start_put(const CopyKey& key, size_t size, Traffic traffic = Traffic::fill) {
    return start_put(key, bytes_of(key, size), traffic);
  }
  Get get_of(const CopyKey& key, uint64_t size, uint64_t offset, uint64_t length) {
    auto memory = std::make_shared<Bytes>(length);
    into_[next_] = memory;
    return {next_++, key, size, offset, *memory, memory};
  }
  uint64_t start_get(const CopyKey& key, uint64_t size, Traffic traffic = Traffic::training) {
    Get get = get_of(key, size, 0, size);
    const uint64_t id = get.id;
    tier_.submit(id_, std::span(&get, 1), traffic);
    return id;
  }
  void submit(std::span<Get> gets, Traffic traffic) { tier_.submit(id_, gets, traffic); }
  void cancel(uint64_t id) { tier_.cancel(id_, id); }

  // With waiting.
  TierEnd put(const CopyKey& key, size_t size) { return end_of(start_put(key, size)); }
  // Checks bytes and checksum of a get that is done: wrong ones are `failed`.
  TierEnd get(const CopyKey& key, uint64_t size) { return get(key, size, 0, size); }
  TierEnd get(const CopyKey& key, uint64_t size, uint64_t offset, uint64_t length) {
    Get get = get_of(key, size, offset, length);
    const uint64_t id = get.id;
    submit(std::span(&get, 1), Traffic::training);
    return checked(id, key, size, offset);
  }
  // The end of a get, `failed` where it is done with other bytes than were put.
  TierEnd checked(uint64_t id, const CopyKey& key, uint64_t size, uint64_t offset = 0) {
    const TierAnswer answer = of(id);
    if (answer.end != TierEnd::done) return answer.end;
    const Bytes& got = *into_.at(id);
    const Bytes whole = bytes_of(key, size);
    const auto right = std::span(whole).subspan(offset, got.size());
    const bool same = std::equal(right.begin(), right.end(), got.begin());
    return same && answer.checksum == checksum64(right) ? TierEnd::done : TierEnd::failed;
  }

  void keep(const Tier::Wanted& wanted) { tier_.keep(id_, wanted); }
  void want(const CopyKey& key) { tier_.want(id_, key); }
  void give_back() { tier_.give_back(id_); }

  TierEnd end_of(uint64_t id) { return of(id).end; }
  // The answer; a made-up one where none came.
  TierAnswer of(uint64_t id) {
    std::unique_lock lock(seen_->mutex);
    if (!seen_->arrived.wait_for(lock, kTierPatience, [&] { return seen_->first.contains(id); }))
      return {id, TierEnd::failed, 0};
    return seen_->first.at(id);
  }
  bool wait_for_count(size_t count) {
    std::unique_lock lock(seen_->mutex);
    return seen_->arrived.wait_for(lock, kTierPatience,
                                   [&] { return seen_->first.size() >= count; });
  }
  size_t count() const {
    const std::scoped_lock lock(seen_->mutex);
    return seen_->first.size();
  }
  size_t count_of(TierEnd end) const {
    const std::scoped_lock lock(seen_->mutex);
    size_t count = 0;
    for (const auto& [id, answer] : seen_->first) count += answer.end == end ? 1 : 0;
    return count;
  }
  size_t repeated() const {
    const std::scoped_lock lock(seen_->mutex);
    return seen_->repeated;
  }
  std::vector<uint64_t> order() const {
    const std::scoped_lock lock(seen_->mutex);
    return seen_->order;
  }

 private:
  struct Seen {
    std::mutex mutex;
    std::condition_variable arrived;
    std::map<uint64_t, TierAnswer> first;
    std::vector<uint64_t> order;
    size_t repeated = 0;
  };

  Tier& tier_;
  std::shared_ptr<Seen> seen_ = std::make_shared<Seen>();
  Tier::Borrower id_ = 0;
  uint64_t next_ = 0;
  std::map<uint64_t, std::shared_ptr<Bytes>> into_;
};

}  // namespace foreload
