// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/hash.h"
#include "foreload/tiers/memory_limit.h"

namespace foreload {
namespace {

constexpr uint64_t kEmpty = 0;
constexpr uint64_t kFilling = 1;
constexpr uint64_t kFull = 2;
constexpr uint64_t kDropped = 3;  // empty as soon as the last reader has left
constexpr uint64_t kStateMask = 3;
constexpr uint64_t kReader = 4;

constexpr uint32_t kNotOwned = UINT32_MAX;
// Below this an arena fits a few huge pages at most, and half of the last one would be wasted.
constexpr uint64_t kHugePagesFrom = uint64_t{64} << 20;

Result<void> check_places(uint64_t samples, uint64_t budget, std::span<const ArenaPlace> places) {
  if (places.size() >= kNotOwned || samples >= std::numeric_limits<size_t>::max() / 4) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot keep {} samples of {} in memory: at most {} are possible",
                            format_count(places.size()), format_count(samples),
                            format_count(kNotOwned - 1)));
  }
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  ranges.reserve(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const ArenaPlace& place = places[i];
    const char* wrong = nullptr;
    if (place.sample >= samples) wrong = "is not in the data set";
    if (i > 0 && place.sample <= places[i - 1].sample) wrong = "is out of order";
    if (place.offset > budget || place.size > budget - place.offset) wrong = "leaves the arena";
    if (wrong != nullptr) {
      return fail(ErrorKind::invalid,
                  fmt::format("cannot place sample {} at {} ({} bytes) in a memory tier of {}: it "
                              "{}; make the plan again",
                              place.sample, place.offset, place.size, format_bytes(budget), wrong));
    }
    if (place.size > 0) ranges.emplace_back(place.offset, place.offset + place.size);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].first >= ranges[i - 1].second) continue;
    return fail(ErrorKind::invalid,
                fmt::format("cannot place two samples at {} in a memory tier of {}: they overlap; "
                            "make the plan again",
                            ranges[i].first, format_bytes(budget)));
  }
  return {};
}

Result<void> check_budget(uint64_t budget) {
  const MemoryLimit limit = memory_limit();
  if (budget <= limit.bytes) return {};
  return fail(ErrorKind::invalid,
              fmt::format("cannot use a memory budget of {}: {} is {}; lower the memory budget, or "
                          "give the job more memory",
                          format_bytes(budget), limit.who, format_bytes(limit.bytes)));
}

}  // namespace

Result<std::unique_ptr<MemoryTier>> MemoryTier::create(uint64_t samples, uint64_t budget,
                                                       std::span<const ArenaPlace> places) {
  FORELOAD_CHECK(check_places(samples, budget, places));
  FORELOAD_CHECK(check_budget(budget));
  std::unique_ptr<MemoryTier> tier(new MemoryTier());
  if (budget > 0) {
    void* arena = ::mmap(nullptr, budget, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) {
      return fail(ErrorKind::invalid,
                  fmt::format("cannot get a memory budget of {} from the system: {}; lower the "
                              "memory budget",
                              format_bytes(budget), std::generic_category().message(errno)));
    }
    // Fewer page faults and TLB misses; a system without huge pages says no, which is fine.
    if (budget >= kHugePagesFrom) ::madvise(arena, budget, MADV_HUGEPAGE);
    tier->arena_ = static_cast<std::byte*>(arena);
  }
  tier->budget_ = budget;
  tier->entry_of_.assign(samples, kNotOwned);
  tier->entries_ = std::make_unique<Entry[]>(places.size());
  tier->entry_count_ = places.size();
  for (size_t i = 0; i < places.size(); ++i) {
    tier->entries_[i].offset = places[i].offset;
    tier->entries_[i].size = places[i].size;
    tier->entry_of_[places[i].sample] = static_cast<uint32_t>(i);
  }
  return tier;
}

MemoryTier::~MemoryTier() {
  if (arena_ != nullptr) ::munmap(arena_, budget_);
}

MemoryTier::Entry* MemoryTier::find(uint64_t sample) const {
  if (sample >= entry_of_.size() || entry_of_[sample] == kNotOwned) return nullptr;
  return &entries_[entry_of_[sample]];
}

bool MemoryTier::owns(uint64_t sample) const {
  return find(sample) != nullptr;
}

bool MemoryTier::holds(uint64_t sample) const {
  const Entry* entry = find(sample);
  return entry != nullptr && (entry->word.load(std::memory_order_acquire) & kStateMask) == kFull;
}

bool MemoryTier::put(uint64_t sample, std::span<const std::byte> bytes, uint64_t checksum) {
  Entry* entry = find(sample);
  if (entry == nullptr || bytes.size() != entry->size) return false;
  // Acquire pairs with the release of readers that have left: their loads come before our stores.
  for (uint64_t word = kEmpty; !entry->word.compare_exchange_weak(
           word, kFilling, std::memory_order_acquire, std::memory_order_relaxed);
       word = kEmpty) {
    if ((word & kStateMask) == kFilling || (word & kStateMask) == kFull) return false;
    if ((word & kStateMask) == kDropped) std::this_thread::yield();  // for the length of a copy
  }
  if (!bytes.empty()) std::memcpy(arena_ + entry->offset, bytes.data(), bytes.size());
  entry->checksum = checksum;
  used_.fetch_add(entry->size, std::memory_order_relaxed);
  entry->word.store(kFull, std::memory_order_release);  // there are no readers while filling
  return true;
}

Copied MemoryTier::get(uint64_t sample, std::span<std::byte> into) {
  Entry* entry = find(sample);
  if (entry == nullptr || into.size() != entry->size) return Copied::miss;
  uint64_t word = entry->word.load(std::memory_order_relaxed);
  do {
    if ((word & kStateMask) != kFull) return Copied::miss;
  } while (!entry->word.compare_exchange_weak(word, word + kReader, std::memory_order_acquire,
                                              std::memory_order_relaxed));
  if (!into.empty()) std::memcpy(into.data(), arena_ + entry->offset, into.size());
  // The copy is checked, not the arena: bytes that change in between must not slip through.
  const bool right = checksum64(into) == entry->checksum;
  if (!right) drop(*entry);
  word = entry->word.load(std::memory_order_relaxed);
  uint64_t left = 0;
  do {
    left = word - kReader;
    if (left == kDropped) left = kEmpty;
  } while (!entry->word.compare_exchange_weak(word, left, std::memory_order_release,
                                              std::memory_order_relaxed));
  return right ? Copied::hit : Copied::corrupt;
}

void MemoryTier::drop(Entry& entry) {
  uint64_t word = entry.word.load(std::memory_order_relaxed);
  uint64_t dropped = 0;
  do {
    if ((word & kStateMask) != kFull) return;
    dropped = word == kFull ? kEmpty : (word & ~kStateMask) | kDropped;
  } while (!entry.word.compare_exchange_weak(word, dropped, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
  used_.fetch_sub(entry.size, std::memory_order_relaxed);
}

void MemoryTier::drop(uint64_t sample) {
  if (Entry* entry = find(sample); entry != nullptr) drop(*entry);
}

uint64_t MemoryTier::overhead() const {
  return sizeof *this + entry_of_.capacity() * sizeof(uint32_t) + entry_count_ * sizeof(Entry);
}

std::span<std::byte> MemoryTier::poke(uint64_t sample) {
  Entry* entry = find(sample);
  assert(entry != nullptr);
  return {arena_ + entry->offset, entry->size};
}

}  // namespace foreload
