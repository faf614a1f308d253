// SPDX-License-Identifier: Apache-2.0
//
// The memory tier: one arena with a fixed budget, in which every sample this rank owns in memory
// has a fixed place that the plan decided. Bytes are checksummed when they arrive and checked when
// they are copied out, so a bad copy is a miss, never a wrong sample.
//
// Any thread may use it. There is no lock: a sample's state is one atomic word that goes empty ->
// filling -> full, and back to empty over dropped, where it stays until copies out that have begun
// are over. No memory is allocated after construction.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

// A place in the arena that belongs to a sample.
struct ArenaPlace {
  uint64_t sample = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

enum class Copied : uint8_t {
  hit,
  miss,     // the sample is not here
  corrupt,  // it was, with other bytes than were put; it is dropped
};

class MemoryTier {
 public:
  // `places` in ascending order of samples, without overlaps, inside [0, budget). `samples` is the
  // size of the data set. Fails with `invalid` if places are wrong, the budget is above what the
  // system or the control group lets this process have, or the system refuses the memory; pages are
  // not touched before they are used.
  static Result<std::unique_ptr<MemoryTier>> create(uint64_t samples, uint64_t budget,
                                                    std::span<const ArenaPlace> places);
  ~MemoryTier();
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  bool owns(uint64_t sample) const;
  bool holds(uint64_t sample) const;
  // Copies bytes in. False if the tier does not own the sample, its size differs, or it is there
  // already (or being put) — then nothing changes. After a drop it waits for copies out that had
  // begun before.
  bool put(uint64_t sample, std::span<const std::byte> bytes, uint64_t checksum);
  // Copies bytes out and checks them. REQUIRES: into.size() is the sample's size (a miss
  // otherwise).
  Copied get(uint64_t sample, std::span<std::byte> into);
  // Forgets a sample, for instance because its file changed. Its place stays its own. A put that is
  // under way is not undone.
  void drop(uint64_t sample);

  uint64_t budget() const { return budget_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }  // payload bytes held
  // Bytes beside the payload: what finding samples costs.
  uint64_t overhead() const;

  // For tests: the bytes of a sample in the arena. REQUIRES: holds(sample).
  std::span<std::byte> poke(uint64_t sample);

 private:
  MemoryTier() = default;
  // One word holds the state (the two lowest bits) and the number of copies out under way (the
  // rest), because they must change together: nobody starts to read what is not full, and nobody
  // fills what is still being read.
  struct Entry {
    uint64_t offset = 0;
    uint64_t size = 0;
    uint64_t checksum = 0;  // written while filling, read while full
    std::atomic<uint64_t> word{0};
  };
  Entry* find(uint64_t sample) const;
  void drop(Entry& entry);

  uint64_t budget_ = 0;
  std::byte* arena_ = nullptr;      // budget_ bytes
  std::vector<uint32_t> entry_of_;  // by sample; UINT32_MAX: not owned
  std::unique_ptr<Entry[]> entries_;
  size_t entry_count_ = 0;
  std::atomic<uint64_t> used_{0};
};

}  // namespace foreload
