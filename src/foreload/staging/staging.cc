// SPDX-License-Identifier: Apache-2.0
#include "foreload/staging/staging.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"

namespace foreload {
namespace {

constexpr uint64_t kAlignment = 64;
constexpr uint64_t kMostWaste = 8;  // a free block is taken if at most an eighth of it is too much
constexpr uint64_t kMostBytes = PTRDIFF_MAX;

}  // namespace

// Free blocks, and the counters of all of them. The allocator is called without the lock: pinning
// memory takes milliseconds.
class Staging::Pool {
 public:
  struct Block {
    std::byte* memory = nullptr;
    uint64_t bytes = 0;
  };

  Pool(uint64_t budget, std::unique_ptr<SlotAllocator> allocator)
      : allocator_(std::move(allocator)), budget_(budget) {}
  ~Pool() { release_beyond(0); }

  // The smallest free block that fits without much waste, or a new one, for which free ones that
  // would not fit beside it go. No memory: null.
  Block take(uint64_t bytes) {
    if (bytes == 0) return {};
    if (const Block block = take_free(bytes); block.memory != nullptr) return block;
    uint64_t budget = 0;
    {
      const std::lock_guard lock(mutex_);
      totals_.in_use += bytes;
      budget = budget_;
    }
    release_beyond(budget);
    std::byte* memory = allocator_->allocate(bytes);
    if (memory == nullptr) {
      release_beyond(0);
      memory = allocator_->allocate(bytes);
    }
    const std::lock_guard lock(mutex_);
    if (memory == nullptr) {
      totals_.in_use -= bytes;
      return {};
    }
    ++totals_.allocated;
    return {memory, bytes};
  }

  void give_back(Block block) {
    if (block.memory == nullptr) return;
    uint64_t budget = 0;
    {
      const std::lock_guard lock(mutex_);
      budget = budget_;
      totals_.in_use -= block.bytes;
      if (budget > 0) {
        totals_.pooled += block.bytes;
        free_.push_back(block);
      }
    }
    if (budget == 0) return allocator_->release(block.memory, block.bytes);
    release_beyond(budget);
  }

  // Nobody will take from here again: what comes back goes to the allocator at once.
  void close() {
    {
      const std::lock_guard lock(mutex_);
      budget_ = 0;
    }
    release_beyond(0);
  }

  StagingTotals totals() const {
    const std::lock_guard lock(mutex_);
    return totals_;
  }

 private:
  Block take_free(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    auto best = free_.end();
    for (auto block = free_.begin(); block != free_.end(); ++block) {
      const bool fits = block->bytes >= bytes && block->bytes - bytes <= bytes / kMostWaste;
      if (fits && (best == free_.end() || block->bytes < best->bytes)) best = block;
    }
    if (best == free_.end()) return {};
    const Block taken = *best;
    free_.erase(best);
    totals_.pooled -= taken.bytes;
    totals_.in_use += taken.bytes;
    return taken;
  }

  // Releases the blocks that have been free longest until slots and free blocks together take at
  // most `budget` bytes, or none is left.
  void release_beyond(uint64_t budget) {
    std::vector<Block> released;
    {
      const std::lock_guard lock(mutex_);
      auto kept = free_.begin();
      for (; kept != free_.end() && totals_.in_use + totals_.pooled > budget; ++kept) {
        totals_.pooled -= kept->bytes;
        released.push_back(*kept);
      }
      free_.erase(free_.begin(), kept);
    }
    for (const Block& block : released) allocator_->release(block.memory, block.bytes);
  }

  const std::unique_ptr<SlotAllocator> allocator_;
  mutable std::mutex mutex_;  // guards the rest
  uint64_t budget_;
  std::vector<Block> free_;  // in the order in which they were given back
  StagingTotals totals_;
};

Staging::Staging(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {}

Staging::~Staging() {
  pool_->close();
}

std::shared_ptr<Staging> Staging::create(uint64_t budget,
                                         std::unique_ptr<SlotAllocator> allocator) {
  if (allocator == nullptr) allocator = page_allocator();
  auto pool = std::make_shared<Pool>(budget, std::move(allocator));
  return std::shared_ptr<Staging>(new Staging(std::move(pool)));
}

uint64_t Staging::aligned(uint64_t size) {
  return size > UINT64_MAX - kAlignment ? UINT64_MAX
                                        : (size + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t Staging::slot_bytes(std::span<const uint64_t> sizes) {
  uint64_t sum = 0;
  for (const uint64_t size : sizes) {
    const uint64_t more = aligned(size);
    if (more > UINT64_MAX - sum) return UINT64_MAX;
    sum += more;
  }
  return sum;
}

Result<std::shared_ptr<Slot>> Staging::take(std::span<const uint64_t> sizes) {
  const uint64_t bytes = slot_bytes(sizes);
  Pool::Block block;
  if (bytes <= kMostBytes) block = pool_->take(bytes);
  if (block.memory == nullptr && bytes > 0) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot allocate {} for a batch of {} samples: out of memory, other "
                            "batches hold {}. Use a smaller batch or look-ahead.",
                            format_bytes(bytes), format_count(sizes.size()),
                            format_bytes(totals().in_use)));
  }
  std::shared_ptr<Slot> slot(new Slot, [pool = pool_, block](Slot* done) {
    delete done;
    pool->give_back(block);
  });
  slot->memory_ = block.memory;
  slot->bytes_ = bytes;
  slot->sizes_.assign(sizes.begin(), sizes.end());
  slot->offsets_.reserve(sizes.size());
  uint64_t offset = 0;
  for (const uint64_t size : sizes) {
    slot->offsets_.push_back(offset);
    offset += aligned(size);
  }
  return slot;
}

StagingTotals Staging::totals() const {
  return pool_->totals();
}

}  // namespace foreload
