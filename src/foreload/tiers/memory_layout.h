// SPDX-License-Identifier: Apache-2.0
//
// How copies lie in memory that ranks of a host share: a header, a hash table that leads from a key
// to a chain of entries, the entries, further runs of entries with more than one, and the arena
// with the bytes in runs of small units. It is one range, so that a rank that maps it finds
// everything in it and needs nothing from the owner, not even that it runs. Plain data; one process
// writes, any number read.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "foreload/tiers/tier.h"

namespace foreload::memory_layout {

inline constexpr std::array<char, 8> kMagic{'F', 'L', 'M', 'E', 'M', 'O', 'R', 'Y'};
inline constexpr uint32_t kVersion = 2;
inline constexpr uint64_t kPage = 4096;

struct Header {
  std::array<char, 8> magic{};
  uint32_t version = 0;
  uint32_t unit = 0;  // bytes
  uint64_t buckets = 0;
  uint64_t entries = 0;  // that there is room for; as many further runs
  uint64_t arena_bytes = 0;
  // Grows before an entry that left its chain is used again: who found nothing meanwhile may have
  // been led into another chain, and looks again.
  std::atomic<uint64_t> unlinked{0};
};

// 1 + the number of an entry or a further run; 0: none.
using Link = std::atomic<uint32_t>;

// Neighbouring units: the number of the first one, and how many.
struct Run {
  uint32_t first = 0;
  uint32_t count = 0;
};
inline uint64_t packed(Run run) {
  return uint64_t{run.first} << 32 | run.count;
}
inline Run unpacked(uint64_t run) {
  return {static_cast<uint32_t>(run >> 32), static_cast<uint32_t>(run)};
}

// Atomic words because other processes read them at any time. What they say counts only if `word`
// was the same full one before and after they, and the bytes, were read. One cache line.
struct alignas(64) Entry {
  std::atomic<uint64_t> content_high;
  std::atomic<uint64_t> content_low;
  std::atomic<uint64_t> form;
  std::atomic<uint64_t> size;      // bytes
  std::atomic<uint64_t> checksum;  // XXH3 of the bytes
  // The two lowest bits are the state, the next 22 count copies out of the owner's own threads, and
  // the rest is a generation that grows with every filling. One word, because they must change
  // together: nobody starts to read what is not full, and nobody fills what is still being read.
  std::atomic<uint64_t> word;
  std::atomic<uint64_t> run;  // the first
  Link next;                  // in its chain
  Link more;                  // the second run
};
struct MoreRun {
  std::atomic<uint64_t> run;
  Link next;
};
static_assert(sizeof(Entry) == 64 && sizeof(MoreRun) == 16 &&
              std::atomic<uint64_t>::is_always_lock_free && Link::is_always_lock_free);

inline constexpr uint64_t kEmpty = 0;
inline constexpr uint64_t kFilling = 1;
inline constexpr uint64_t kFull = 2;
inline constexpr uint64_t kDropped = 3;  // empty as soon as who fills or reads it has left
inline constexpr uint64_t kStateMask = 3;
inline constexpr uint64_t kReader = 4;
inline constexpr uint64_t kGeneration = uint64_t{1} << 24;

inline uint64_t state_of(uint64_t word) {
  return word & kStateMask;
}
inline uint64_t generation_of(uint64_t word) {
  return word / kGeneration;
}
// Without the readers, which say nothing about the bytes.
inline uint64_t without_readers(uint64_t word) {
  return word & ~(kGeneration - kReader);
}
inline CopyKey key_of(const Entry& entry) {
  return {{entry.content_high.load(std::memory_order_relaxed),
           entry.content_low.load(std::memory_order_relaxed)},
          entry.form.load(std::memory_order_relaxed)};
}

// Between processes. The thread sanitizer knows no fences, and sees one process only.
inline void fence([[maybe_unused]] std::memory_order order) {
#ifndef __SANITIZE_THREAD__
  std::atomic_thread_fence(order);
#endif
}

// Where the parts begin.
struct Layout {
  uint64_t buckets = 0;
  uint64_t entries = 0;
  uint64_t more = 0;
  uint64_t arena = 0;
};
inline constexpr uint64_t kHeaderBytes = 128;
inline constexpr uint64_t kMostEntries = UINT32_MAX - 1;
static_assert(sizeof(Header) <= kHeaderBytes);
// REQUIRES: both at most kMostEntries + 1, so that nothing overflows.
constexpr Layout layout_of(uint64_t buckets, uint64_t entries) {
  Layout layout;
  layout.buckets = kHeaderBytes;
  layout.entries = (layout.buckets + buckets * sizeof(Link) + 63) / 64 * 64;
  layout.more = layout.entries + entries * sizeof(Entry);
  layout.arena = (layout.more + entries * sizeof(MoreRun) + kPage - 1) / kPage * kPage;
  return layout;
}

// A mapped range, as the owner and its neighbours look at it.
struct Range {
  Header* header = nullptr;
  Link* buckets = nullptr;
  Entry* entries = nullptr;
  MoreRun* more = nullptr;
  std::byte* arena = nullptr;

  static Range at(std::byte* memory, const Layout& layout) {
    return {reinterpret_cast<Header*>(memory), reinterpret_cast<Link*>(memory + layout.buckets),
            reinterpret_cast<Entry*>(memory + layout.entries),
            reinterpret_cast<MoreRun*>(memory + layout.more), memory + layout.arena};
  }
  // REQUIRES: the number of buckets is a power of two.
  Link& bucket_of(const CopyKey& key) const {
    return buckets[(key.content.low ^ key.form * 0x9e3779b97f4a7c15u) & (header->buckets - 1)];
  }
};

// Calls use(const std::byte* at, bytes) for the bytes [offset, offset + length) of an entry, run by
// run. False if runs leave the arena or end before: an entry that changes may say anything.
template <class Use>
bool visit_runs(const Range& range, const Entry& entry, uint64_t offset, uint64_t length, Use use) {
  const uint64_t unit = range.header->unit;
  uint64_t run = entry.run.load(std::memory_order_relaxed);
  uint32_t more = entry.more.load(std::memory_order_relaxed);
  while (length > 0) {
    const uint64_t from = unpacked(run).first * unit;
    const uint64_t bytes = unpacked(run).count * unit;
    if (bytes == 0 || from + bytes > range.header->arena_bytes) return false;
    if (offset < bytes) {
      const uint64_t now = std::min(length, bytes - offset);
      use(range.arena + from + offset, now);
      length -= now;
    }
    offset -= std::min(offset, bytes);
    if (length == 0) return true;
    if (more == 0 || more > range.header->entries) return false;
    const MoreRun& next = range.more[more - 1];
    run = next.run.load(std::memory_order_relaxed);
    more = next.next.load(std::memory_order_relaxed);
  }
  return true;
}

}  // namespace foreload::memory_layout
