// SPDX-License-Identifier: Apache-2.0
//
// How a memory tier lies in its memory: a header, a table that leads from a sample to its entry,
// the entries, and the arena with the bytes. It is one range, so that a rank on the same host that
// maps it finds everything in it and needs nothing from the owner, not even that it runs.
// docs/formats.md says the same in words. Plain data; one process writes, any number read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace foreload::memory_layout {

inline constexpr std::array<char, 8> kMagic{'F', 'L', 'M', 'E', 'M', 'O', 'R', 'Y'};
inline constexpr uint32_t kVersion = 1;
inline constexpr uint64_t kPage = 4096;

struct Header {
  std::array<char, 8> magic{};
  uint32_t version = 0;
  uint32_t zero = 0;
  uint64_t plan_high = 0;  // digest of the plan: it decides sizes and who should have what
  uint64_t plan_low = 0;
  uint64_t samples = 0;  // of the data set
  uint64_t entries = 0;  // that there is room for
  uint64_t arena_bytes = 0;
};

// By sample: 1 + the number of its entry, 0 if it has none.
using Place = std::atomic<uint32_t>;

// Atomic words because other processes read them at any time. What they say counts only if `word`
// was the same full one before and after they, and the bytes, were read.
struct Entry {
  std::atomic<uint64_t> sample;
  std::atomic<uint64_t> offset;    // in the arena
  std::atomic<uint64_t> size;      // bytes
  std::atomic<uint64_t> checksum;  // XXH3 of the bytes
  // The two lowest bits are the state, the next 22 count copies out of the owner's own threads, and
  // the rest is a generation that grows with every filling. One word, because they must change
  // together: nobody starts to read what is not full, and nobody fills what is still being read.
  std::atomic<uint64_t> word;
};
static_assert(sizeof(Entry) == 40 && std::atomic<uint64_t>::is_always_lock_free &&
              Place::is_always_lock_free);

inline constexpr uint64_t kEmpty = 0;
inline constexpr uint64_t kFilling = 1;
inline constexpr uint64_t kFull = 2;
inline constexpr uint64_t kDropped = 3;  // empty as soon as the last of the owner's readers left
inline constexpr uint64_t kStateMask = 3;
inline constexpr uint64_t kReader = 4;
inline constexpr uint64_t kGeneration = uint64_t{1} << 24;

inline uint64_t state_of(uint64_t word) {
  return word & kStateMask;
}
// Without the readers, which say nothing about the bytes.
inline uint64_t without_readers(uint64_t word) {
  return word & ~(kGeneration - kReader);
}

// Between processes. The thread sanitizer knows no fences, and sees one process only.
inline void fence([[maybe_unused]] std::memory_order order) {
#ifndef __SANITIZE_THREAD__
  std::atomic_thread_fence(order);
#endif
}

// Where the parts begin. REQUIRES: samples and entries below 2^32, so that nothing overflows.
struct Layout {
  uint64_t places = 0;
  uint64_t entries = 0;
  uint64_t arena = 0;
};
inline constexpr uint64_t kHeaderBytes = 128;
constexpr Layout layout_of(uint64_t samples, uint64_t entries) {
  Layout layout;
  layout.places = kHeaderBytes;
  layout.entries = (layout.places + samples * sizeof(Place) + 63) / 64 * 64;
  layout.arena = (layout.entries + entries * sizeof(Entry) + kPage - 1) / kPage * kPage;
  return layout;
}
static_assert(sizeof(Header) <= kHeaderBytes);

}  // namespace foreload::memory_layout
