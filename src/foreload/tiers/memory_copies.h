// SPDX-License-Identifier: Apache-2.0
//
// Copies in one range of memory (memory_layout.h) with a fixed budget, found by their keys. The
// range is the process's own, or a memfd that other ranks of the host map and read in place
// (memory_view.h). Nothing of it has a name: it is gone when the last process that has it mapped
// is, however that ends.
//
// Any thread may use it. Copying out takes no lock: an entry's state is one atomic word that goes
// empty -> filling -> full, and back to empty over dropped, where it stays until who copies has
// left. Everything else is done under one lock, which is never held while bytes are copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "foreload/base/descriptor.h"
#include "foreload/base/result.h"
#include "foreload/tiers/arena_room.h"
#include "foreload/tiers/checked_copy.h"
#include "foreload/tiers/memory_layout.h"
#include "foreload/tiers/tier.h"

namespace foreload {

class MemoryCopies : public std::enable_shared_from_this<MemoryCopies> {
 public:
  struct Settings {
    uint64_t budget = 0;  // bytes of copies; what finding them costs comes on top
    bool shared = false;  // so that others of the host can map it
    // Of copies as expected: larger or smaller ones work, many smaller ones are found slower.
    uint64_t mean_size = 16 << 10;
    // So many of any sizes that add up to the budget fit, and at least as many as of the mean size;
    // what rounding them costs comes on top, as they come.
    uint64_t copies = 0;
  };
  // Borrowers are bits of a word. 0: nobody.
  using Who = uint64_t;

  // Fails with `invalid` if the budget is above what the system or the control group lets this
  // process have, or the system refuses the memory; pages are not touched before they are used.
  static Result<std::shared_ptr<MemoryCopies>> create(const Settings& settings);
  ~MemoryCopies();
  MemoryCopies(const MemoryCopies&) = delete;
  MemoryCopies& operator=(const MemoryCopies&) = delete;

  // Copies bytes in, wanted by this borrower and those that want all. False if it is there or being
  // put, or there is no room; what nobody wants makes room.
  bool put(const CopyKey& key, std::span<const std::byte> bytes, std::optional<uint64_t> checksum,
           Who who);
  // These come next: what finds their copies is fetched into the cache, for all at once.
  void expect(std::span<const Get> gets) const;
  // Copies a range out of a copy of this size, checks it and gives its checksum. A copy that is
  // corrupt is dropped.
  Copied get(const CopyKey& key, uint64_t size, uint64_t offset, std::span<std::byte> into,
             uint64_t& checksum);
  void drop(const CopyKey& key);
  std::shared_ptr<const void> pin(const CopyKey& key);
  bool holds(const CopyKey& key) const;
  std::vector<FoundCopy> found() const;

  // From now on it wants all there are and all that come.
  void want_all(Who who);
  // Of those that are there, the ones `wanted` says (none without a function); of those that come,
  // the ones it puts. REQUIRES: `wanted` asks nothing of this object.
  void want(Who who, const Tier::Wanted& wanted);
  // This one too; false if it is not here.
  bool want_also(Who who, const CopyKey& key);

  uint64_t capacity(uint64_t mean_size) const;
  uint64_t payload() const { return payload_.load(std::memory_order_relaxed); }
  uint64_t reclaimed() const { return reclaimed_.load(std::memory_order_relaxed); }
  // Bytes beside the payload: what finding copies costs.
  uint64_t overhead() const;
  // The memfd, for MemoryView::map() elsewhere; -1 if it is not shared. Stays this object's.
  int memory() const { return memory_fd_.get(); }
  // For tests: a byte of a copy. REQUIRES: holds(key), offset is in it.
  std::byte& poke(const CopyKey& key, uint64_t offset);
  // For tests: in how many runs it lies.
  size_t runs(const CopyKey& key) const;

 private:
  using Entry = memory_layout::Entry;
  using Run = memory_layout::Run;
  // Checksums of the blocks of a copy, made when a range of it is first asked for.
  using Blocks = std::shared_ptr<const std::vector<uint64_t>>;
  // What only the owner needs to know of an entry.
  struct Side {
    Who wanted = 0;
    uint32_t pins = 0;
    bool doomed = false;  // dropped with its last pin
    Blocks blocks;
  };
  struct Unwanted {
    uint32_t number = 0;
    uint64_t generation = 0;
  };

  explicit MemoryCopies(const Settings& settings);
  Result<void> map();

  // The entry, with the caller as a reader; null if it is not there in full.
  Entry* begin_reading(const CopyKey& key) const;
  void end_reading(Entry& entry);
  Copied copy_whole(const Entry& entry, std::span<std::byte> into, uint64_t& checksum) const;
  Copied copy_range(const Entry& entry, uint64_t offset, std::span<std::byte> into);
  // Null if the copy is corrupt.
  Blocks blocks_of(const Entry& entry);

  // REQUIRES for the rest: mutex_ is held.
  Entry* find(const CopyKey& key) const;
  Entry* begin_filling(const CopyKey& key, uint64_t size);
  bool make_room(uint64_t size);
  uint32_t new_entry();
  void set_runs(Entry& entry);
  void link(Entry& entry, const CopyKey& key);
  void unlink(Entry& entry);
  // Nobody finds it any more; its room is free once nobody uses it.
  void remove(Entry& entry);
  void release(Entry& entry);
  void unpin(uint32_t number, uint64_t generation);
  uint32_t number_of(const Entry& entry) const {
    return static_cast<uint32_t>(&entry - range_.entries);
  }
  uint32_t units_of(uint64_t size) const {
    return static_cast<uint32_t>((size + unit_ - 1) / unit_);
  }

  const Settings settings_;
  uint64_t unit_ = 64;
  Descriptor memory_fd_;
  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;  // mapped
  memory_layout::Range range_;
  uint64_t copies_ = 0;       // that fit, if the budget has room for their sizes
  uint64_t entry_count_ = 0;  // that there is room for
  std::atomic<uint64_t> payload_{0};
  std::atomic<uint64_t> reclaimed_{0};

  mutable std::mutex mutex_;  // guards the rest, links and who has which entry
  std::optional<ArenaRoom> room_;
  uint64_t taken_ = 0;      // bytes of the budget
  std::deque<Side> sides_;  // of the entries used so far
  std::vector<uint32_t> free_entries_;
  std::vector<uint32_t> free_more_;
  uint32_t more_used_ = 0;
  std::vector<Run> runs_;  // of the put that is being begun
  Who want_all_ = 0;
  std::deque<Unwanted> unwanted_;  // the first to go first; some may be wanted again
};

}  // namespace foreload
