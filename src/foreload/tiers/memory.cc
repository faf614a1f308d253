// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/tiers/memory_limit.h"

namespace foreload {
namespace {

using namespace memory_layout;

constexpr uint64_t kMostSamples = std::numeric_limits<uint32_t>::max();
// Below this an arena fits a few huge pages at most, and half of the last one would be wasted.
constexpr uint64_t kHugePagesFrom = uint64_t{64} << 20;

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;  // begin and end

// The ranges that places take, in ascending order.
Result<Ranges> check_places(uint64_t samples, uint64_t budget, std::span<const ArenaPlace> places) {
  if (samples >= kMostSamples) {
    return fail(
        ErrorKind::invalid,
        fmt::format("cannot keep a data set of {} samples in memory: at most {} are possible; "
                    "set the memory budget to 0",
                    format_count(samples), format_count(kMostSamples - 1)));
  }
  Ranges ranges;
  ranges.reserve(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    const ArenaPlace& place = places[i];
    const char* wrong = nullptr;
    if (place.sample >= samples) wrong = "is not in the data set";
    if (i > 0 && place.sample <= places[i - 1].sample) wrong = "is out of order";
    if (place.offset > budget || place.size > budget - place.offset)
      wrong = "ends outside of the tier";
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
  return ranges;
}

Result<void> check_budget(uint64_t budget) {
  const MemoryLimit limit = memory_limit();
  if (budget <= limit.bytes) return {};
  return fail(ErrorKind::invalid,
              fmt::format("cannot use a memory budget of {}: {} is {}; lower the memory budget, or "
                          "give the job more memory",
                          format_bytes(budget), limit.who, format_bytes(limit.bytes)));
}

// What is left of [0, budget) between them: offset -> bytes.
std::map<uint64_t, uint64_t> gaps_between(const Ranges& ranges, uint64_t budget) {
  std::map<uint64_t, uint64_t> gaps;
  uint64_t end = 0;
  for (const auto& [from, to] : ranges) {
    if (from > end) gaps.emplace(end, from - end);
    end = to;
  }
  if (budget > end) gaps.emplace(end, budget - end);
  return gaps;
}

tl::unexpected<Error> refused(uint64_t budget, int error) {
  return fail(ErrorKind::invalid,
              fmt::format("cannot get a memory budget of {} from the system: {}; lower the memory "
                          "budget",
                          format_bytes(budget), std::generic_category().message(error)));
}

}  // namespace

Result<std::unique_ptr<MemoryTier>> MemoryTier::create(uint64_t samples, uint64_t budget,
                                                       std::span<const ArenaPlace> places,
                                                       const std::optional<Digest>& shared) {
  FORELOAD_TRY(const Ranges ranges, check_places(samples, budget, places));
  FORELOAD_CHECK(check_budget(budget));
  std::unique_ptr<MemoryTier> tier(new MemoryTier());
  tier->budget_ = budget;
  tier->samples_ = samples;
  tier->free_ = gaps_between(ranges, budget);
  tier->own_places_ = static_cast<uint32_t>(places.size());
  // Entries cost nothing before they are used.
  tier->entry_count_ = tier->free_.empty() ? tier->own_places_ : static_cast<uint32_t>(samples);
  tier->entries_used_ = tier->own_places_;
  const Layout layout = layout_of(samples, tier->entry_count_);
  FORELOAD_CHECK(tier->map(layout.arena + budget, shared.has_value()));
  tier->places_ = reinterpret_cast<Place*>(tier->memory_ + layout.places);
  tier->entries_ = reinterpret_cast<Entry*>(tier->memory_ + layout.entries);
  tier->arena_ = tier->memory_ + layout.arena;
  // Fewer page faults and TLB misses; a system without huge pages says no, which is fine.
  if (budget >= kHugePagesFrom) ::madvise(tier->arena_, budget, MADV_HUGEPAGE);
  const Digest plan = shared.value_or(Digest());
  const Header header{kMagic,  kVersion,           0,     plan.high, plan.low,
                      samples, tier->entry_count_, budget};
  std::memcpy(tier->memory_, &header, sizeof header);
  for (uint32_t i = 0; i < places.size(); ++i) {
    Entry& entry = tier->entries_[i];
    entry.sample = places[i].sample;
    entry.offset = places[i].offset;
    entry.size = places[i].size;
    tier->places_[places[i].sample] = i + 1;
  }
  return tier;
}

Result<void> MemoryTier::map(uint64_t bytes, bool shared) {
  if (shared) {
    memory_fd_ = ::memfd_create("foreload-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory_fd_ < 0 || ::ftruncate(memory_fd_, static_cast<off_t>(bytes)) != 0)
      return refused(budget_, errno);
  }
  const int kind = shared ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kind | MAP_NORESERVE, memory_fd_, 0);
  if (memory == MAP_FAILED) return refused(budget_, errno);
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  return {};
}

MemoryTier::~MemoryTier() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
  if (memory_fd_ >= 0) ::close(memory_fd_);
}

MemoryTier::Entry* MemoryTier::find(uint64_t sample) const {
  if (sample >= samples_) return nullptr;
  const uint32_t place = places_[sample].load(std::memory_order_acquire);
  return place == 0 ? nullptr : &entries_[place - 1];
}

bool MemoryTier::has_own_place(const Entry& entry) const {
  return &entry < entries_ + own_places_;
}

bool MemoryTier::owns(uint64_t sample) const {
  const Entry* entry = find(sample);
  return entry != nullptr && has_own_place(*entry);
}

bool MemoryTier::holds(uint64_t sample) const {
  const Entry* entry = find(sample);
  return entry != nullptr && state_of(entry->word.load(std::memory_order_acquire)) == kFull &&
         entry->sample.load(std::memory_order_relaxed) == sample;
}

bool MemoryTier::begin_filling(Entry& entry) {
  uint64_t word = entry.word.load(std::memory_order_relaxed);
  while (true) {
    if (state_of(word) == kFilling || state_of(word) == kFull) return false;
    if (state_of(word) == kDropped) {  // for the length of a copy
      std::this_thread::yield();
      word = entry.word.load(std::memory_order_relaxed);
      continue;
    }
    // Acquire pairs with the release of readers that have left: their loads come before our stores.
    if (entry.word.compare_exchange_weak(word, without_readers(word) + kGeneration + kFilling,
                                         std::memory_order_acquire, std::memory_order_relaxed))
      break;
  }
  // Whoever maps this memory and sees any of the new bytes sees the new word too.
  fence(std::memory_order_release);
  return true;
}

void MemoryTier::fill(Entry& entry, std::span<const std::byte> bytes, uint64_t checksum) {
  const uint64_t offset = entry.offset.load(std::memory_order_relaxed);
  if (!bytes.empty()) std::memcpy(arena_ + offset, bytes.data(), bytes.size());
  entry.checksum.store(checksum, std::memory_order_relaxed);
  used_.fetch_add(bytes.size(), std::memory_order_relaxed);
  // There are no readers while filling.
  const uint64_t word = entry.word.load(std::memory_order_relaxed);
  entry.word.store(word - kFilling + kFull, std::memory_order_release);
}

bool MemoryTier::put(uint64_t sample, std::span<const std::byte> bytes, uint64_t checksum) {
  Entry* entry = find(sample);
  if (entry != nullptr && has_own_place(*entry)) {
    if (bytes.size() != entry->size.load(std::memory_order_relaxed) || !begin_filling(*entry))
      return false;
  } else {
    entry = begin_guest(sample, bytes.size());
    if (entry == nullptr) return false;
  }
  fill(*entry, bytes, checksum);
  return true;
}

MemoryTier::Entry* MemoryTier::begin_guest(uint64_t sample, uint64_t size) {
  if (sample >= samples_) return nullptr;
  std::lock_guard lock(guests_);
  if (Entry* known = find(sample)) {
    const uint64_t state = state_of(known->word.load(std::memory_order_relaxed));
    if (state == kFull || state == kFilling) return nullptr;
    let_go(*known, sample);
  }
  collect_room();
  auto gap = free_.begin();
  while (gap != free_.end() && gap->second < size) ++gap;
  if (size > 0 && gap == free_.end()) return nullptr;
  uint32_t number = entries_used_.load(std::memory_order_relaxed);
  if (!free_entries_.empty()) {
    number = free_entries_.back();
    free_entries_.pop_back();
  } else if (number < entry_count_) {
    entries_used_.store(number + 1, std::memory_order_relaxed);
  } else {
    return nullptr;
  }
  Entry& entry = entries_[number];
  begin_filling(entry);
  entry.sample.store(sample, std::memory_order_relaxed);
  entry.size.store(size, std::memory_order_relaxed);
  entry.offset.store(0, std::memory_order_relaxed);
  if (size > 0) {
    entry.offset.store(gap->first, std::memory_order_relaxed);
    if (gap->second > size) free_.emplace(gap->first + size, gap->second - size);
    free_.erase(gap);
  }
  places_[sample].store(number + 1, std::memory_order_release);
  return &entry;
}

// The guest's entry is nobody's as soon as the last copy out is over. REQUIRES: guests_ held, the
// entry was dropped.
void MemoryTier::let_go(Entry& entry, uint64_t sample) {
  const auto number = static_cast<uint32_t>(&entry - entries_);
  if (places_[sample].load(std::memory_order_relaxed) != number + 1) return;  // done already
  places_[sample].store(0, std::memory_order_relaxed);
  leaving_.push_back(number);
}

// REQUIRES: guests_ held.
void MemoryTier::collect_room() {
  std::erase_if(leaving_, [this](uint32_t number) {
    Entry& entry = entries_[number];
    // Acquire: the loads of readers that have left come before what is written there next.
    if (state_of(entry.word.load(std::memory_order_acquire)) != kEmpty) return false;
    give_back(entry.offset.load(std::memory_order_relaxed),
              entry.size.load(std::memory_order_relaxed));
    free_entries_.push_back(number);
    return true;
  });
}

void MemoryTier::give_back(uint64_t offset, uint64_t size) {
  if (size == 0) return;
  auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      size += before->second;
      free_.erase(before);
    }
  }
  if (after != free_.end() && offset + size == after->first) {
    size += after->second;
    free_.erase(after);
  }
  free_.emplace(offset, size);
}

Copied MemoryTier::get(uint64_t sample, std::span<std::byte> into, uint64_t* checksum) {
  Entry* entry = find(sample);
  if (entry == nullptr) return Copied::miss;
  uint64_t word = entry->word.load(std::memory_order_relaxed);
  do {
    if (state_of(word) != kFull) return Copied::miss;
  } while (!entry->word.compare_exchange_weak(word, word + kReader, std::memory_order_acquire,
                                              std::memory_order_relaxed));
  // From here on it cannot become another sample's; it may have before.
  Copied copied = Copied::miss;
  if (entry->sample.load(std::memory_order_relaxed) == sample &&
      entry->size.load(std::memory_order_relaxed) == into.size()) {
    const uint64_t found =
        checked_copy(arena_ + entry->offset.load(std::memory_order_relaxed), into);
    const bool right = found == entry->checksum.load(std::memory_order_relaxed);
    copied = right ? Copied::hit : Copied::corrupt;
    if (checksum != nullptr) *checksum = found;
  }
  if (copied == Copied::corrupt && drop(*entry) && !has_own_place(*entry)) {
    std::lock_guard lock(guests_);
    let_go(*entry, sample);
  }
  word = entry->word.load(std::memory_order_relaxed);
  uint64_t left = 0;
  do {
    left = word - kReader;
    if (left == without_readers(left) && state_of(left) == kDropped)
      left = left - kDropped + kEmpty;
  } while (!entry->word.compare_exchange_weak(word, left, std::memory_order_release,
                                              std::memory_order_relaxed));
  return copied;
}

bool MemoryTier::drop(Entry& entry) {
  // Before: once it is empty it may become another sample's.
  const uint64_t size = entry.size.load(std::memory_order_relaxed);
  uint64_t word = entry.word.load(std::memory_order_relaxed);
  uint64_t dropped = 0;
  do {
    if (state_of(word) != kFull) return false;
    dropped = word - kFull + (word == without_readers(word) ? kEmpty : kDropped);
  } while (!entry.word.compare_exchange_weak(word, dropped, std::memory_order_acq_rel,
                                             std::memory_order_relaxed));
  used_.fetch_sub(size, std::memory_order_relaxed);
  return true;
}

void MemoryTier::drop(uint64_t sample) {
  Entry* entry = find(sample);
  if (entry == nullptr) return;
  if (has_own_place(*entry)) {
    drop(*entry);
    return;
  }
  std::lock_guard lock(guests_);
  entry = find(sample);
  if (entry != nullptr && drop(*entry)) let_go(*entry, sample);
}

uint64_t MemoryTier::overhead() const {
  return sizeof *this + kHeaderBytes + samples_ * sizeof(Place) +
         entries_used_.load(std::memory_order_relaxed) * sizeof(Entry);
}

std::span<std::byte> MemoryTier::poke(uint64_t sample) {
  Entry* entry = find(sample);
  assert(entry != nullptr);
  return {arena_ + entry->offset, entry->size};
}

}  // namespace foreload
