// SPDX-License-Identifier: Apache-2.0
//
// Memory of batches: slots that are filled out of order by many threads and handed out in order by
// the loader. A slot has one range per sample, aligned for SIMD and known before the first byte
// arrives. Whoever holds a slot (a read in flight, a tensor of the user) keeps its memory; when the
// last holder lets go, the memory returns to the pool and is used again. A user who keeps every
// batch gets new memory every time, never a batch that changes under him.
//
// Any thread may take and release slots; filling different ranges of one slot from different threads
// needs no lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

// Where slot memory comes from: the heap by default, pinned memory of a framework later.
class SlotAllocator {
 public:
  virtual ~SlotAllocator() = default;
  // At least `bytes` bytes, aligned to 64; null if there are none.
  virtual std::byte* allocate(size_t bytes) = 0;
  virtual void release(std::byte* memory, size_t bytes) = 0;
};

// Pages from the system, returned to it on release.
std::unique_ptr<SlotAllocator> page_allocator();

class Staging;

// The memory of one batch.
class Slot {
 public:
  size_t samples() const { return offsets_.size(); }
  std::span<std::byte> range(size_t i) { return {memory_ + offsets_[i], sizes_[i]}; }
  std::span<const std::byte> range(size_t i) const { return {memory_ + offsets_[i], sizes_[i]}; }
  uint64_t bytes() const { return bytes_; }  // of memory, alignment included

 private:
  friend class Staging;
  std::byte* memory_ = nullptr;
  uint64_t capacity_ = 0;
  uint64_t bytes_ = 0;
  std::vector<uint64_t> offsets_;
  std::vector<uint64_t> sizes_;
};

struct StagingTotals {
  uint64_t in_use = 0;     // bytes of slots that somebody holds
  uint64_t pooled = 0;     // bytes kept for the next slots
  uint64_t allocated = 0;  // allocations so far
};

class Staging : public std::enable_shared_from_this<Staging> {
 public:
  // Keeps at most `pool_bytes` of released memory for reuse.
  static std::shared_ptr<Staging> create(uint64_t pool_bytes,
                                         std::unique_ptr<SlotAllocator> allocator = nullptr);
  ~Staging();

  // A slot with one range per size. The budget is the caller's to keep: it says how many slots exist
  // at a time. Fails with `invalid` if there is no memory. The slot may outlive the Staging.
  Result<std::shared_ptr<Slot>> take(std::span<const uint64_t> sizes);
  // Bytes that take(sizes) will use.
  static uint64_t slot_bytes(std::span<const uint64_t> sizes);
  static uint64_t aligned(uint64_t size);
  StagingTotals totals() const;

 private:
  Staging(uint64_t pool_bytes, std::unique_ptr<SlotAllocator> allocator);
  void give_back(Slot* slot);

  const uint64_t pool_bytes_;
  const std::unique_ptr<SlotAllocator> allocator_;
  mutable std::mutex mutex_;  // guards the rest
  struct Free {
    std::byte* memory;
    uint64_t bytes;
  };
  std::vector<Free> pool_;
  StagingTotals totals_;
};

}  // namespace foreload
