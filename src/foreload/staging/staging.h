// SPDX-License-Identifier: Apache-2.0
//
// Memory of batches: slots that are filled out of order by many threads and handed out in order by
// the loader. A slot has one range per sample, aligned for SIMD and known before the first byte
// arrives. Whoever holds a slot (a read in flight, a tensor of the user) keeps its memory; when the
// last holder lets go, the memory returns to the pool and is used again. A user who keeps every
// batch gets new memory every time, never a batch that changes under him.
//
// Any thread may take and release slots; filling different ranges of one slot from different
// threads needs no lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

// Where slot memory comes from: the system by default, pinned memory of a framework later. Any
// thread may call, several at a time.
class SlotAllocator {
 public:
  virtual ~SlotAllocator() = default;
  // At least `bytes` bytes, aligned to 64; null if there are none. REQUIRES: bytes > 0.
  virtual std::byte* allocate(size_t bytes) = 0;
  // What allocate(bytes) gave.
  virtual void release(std::byte* memory, size_t bytes) = 0;
};

// Pages from the system, returned to it on release; huge ones where they pay and the system has
// them.
std::unique_ptr<SlotAllocator> page_allocator();

// The memory of one batch.
class Slot {
 public:
  size_t samples() const { return sizes_.size(); }
  // REQUIRES: i < samples().
  std::span<std::byte> range(size_t i) { return {memory_ + offsets_[i], sizes_[i]}; }
  std::span<const std::byte> range(size_t i) const { return {memory_ + offsets_[i], sizes_[i]}; }
  uint64_t bytes() const { return bytes_; }  // of all ranges, alignment included

 private:
  friend class Staging;
  Slot() = default;

  std::byte* memory_ = nullptr;  // null if bytes_ is 0
  uint64_t bytes_ = 0;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> sizes_;
};

// Memory is counted in blocks as allocated; a slot may sit in a block an eighth larger than it.
struct StagingTotals {
  uint64_t in_use = 0;     // bytes of blocks that slots hold
  uint64_t pooled = 0;     // bytes of blocks kept for the next slots
  uint64_t allocated = 0;  // allocations so far
};

class Staging {
 public:
  // Keeps released memory for reuse as long as it and the slots in use together take at most
  // `budget` bytes; beyond that, what was released first goes back to the allocator first, and with
  // a budget of 0 each block goes back at once and is never taken again from here. Null:
  // page_allocator().
  static std::shared_ptr<Staging> create(uint64_t budget,
                                         std::unique_ptr<SlotAllocator> allocator = nullptr);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // A slot with one range per size. How many slots exist at a time is the caller's to decide: a
  // slot is given beyond the budget too. Fails with `invalid` if there is no memory. The slot may
  // outlive the Staging.
  Result<std::shared_ptr<Slot>> take(std::span<const uint64_t> sizes);
  // Bytes that a slot of these sizes needs; 2^64 - 1 if that is beyond counting.
  static uint64_t slot_bytes(std::span<const uint64_t> sizes);
  // The size rounded up to the alignment of ranges.
  static uint64_t aligned(uint64_t size);
  StagingTotals totals() const;

 private:
  class Pool;  // shared with the slots, so that they can outlive the Staging

  explicit Staging(std::shared_ptr<Pool> pool);

  const std::shared_ptr<Pool> pool_;
};

}  // namespace foreload
