// SPDX-License-Identifier: Apache-2.0
//
// The memory tier: one arena with a fixed budget, in which every sample this rank owns in memory
// has a fixed place that the plan decided. What those places leave free goes to other samples as
// they are put, copies of what others own or owned. Bytes are checksummed when they arrive and
// checked when they are copied out, so a bad copy is a miss, never a wrong sample.
//
// The arena and all that finds samples in it are one range of memory (memory_layout.h), either the
// process's own or a memfd that other ranks of the host can map and read (memory_view.h). Nothing
// of it has a name: it is gone when the last process that has it mapped is, however that ends.
//
// Any thread may use it. There is no lock for samples with a place of their own: a sample's state
// is one atomic word that goes empty -> filling -> full, and back to empty over dropped, where it
// stays until copies out that have begun are over.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/base/result.h"
#include "foreload/tiers/checked_copy.h"
#include "foreload/tiers/memory_layout.h"

namespace foreload {

// A place in the arena that belongs to a sample.
struct ArenaPlace {
  uint64_t sample = 0;
  uint64_t offset = 0;
  uint64_t size = 0;
};

class MemoryTier {
 public:
  // `places` in ascending order of samples, without overlaps, inside [0, budget). `samples` is the
  // size of the data set. With `shared`, the digest of the plan, others can map it. Fails with
  // `invalid` if places are wrong, the budget is above what the system or the control group lets
  // this process have, or the system refuses the memory; pages are not touched before they are
  // used.
  static Result<std::unique_ptr<MemoryTier>> create(
      uint64_t samples, uint64_t budget, std::span<const ArenaPlace> places,
      const std::optional<Digest>& shared = std::nullopt);
  ~MemoryTier();
  MemoryTier(const MemoryTier&) = delete;
  MemoryTier& operator=(const MemoryTier&) = delete;

  bool owns(uint64_t sample) const;  // it has a place of its own
  bool holds(uint64_t sample) const;
  // Copies bytes in. False if the sample has no place of its own and there is no room in one piece
  // left for it, its size is not that of its place, or it is there already (or being put): then
  // nothing changes. After a drop it waits for copies out that had begun before.
  bool put(uint64_t sample, std::span<const std::byte> bytes, uint64_t checksum);
  // Copies bytes out and checks them; a hit says their checksum to whoever wants it. REQUIRES:
  // into.size() is the sample's size (a miss otherwise).
  Copied get(uint64_t sample, std::span<std::byte> into, uint64_t* checksum = nullptr);
  // Forgets a sample, for instance because its file changed. A place of its own stays its own, any
  // other is free for others. A put that is under way is not undone.
  void drop(uint64_t sample);

  // The memfd, for MemoryView::map() elsewhere; -1 if it is not shared. Stays the tier's.
  int memory() const { return memory_fd_; }
  uint64_t budget() const { return budget_; }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }  // payload bytes held
  // Bytes beside the payload: what finding samples costs.
  uint64_t overhead() const;

  // For tests: the bytes of a sample in the arena. REQUIRES: holds(sample).
  std::span<std::byte> poke(uint64_t sample);

 private:
  using Entry = memory_layout::Entry;

  MemoryTier() = default;
  Result<void> map(uint64_t bytes, bool shared);
  Entry* find(uint64_t sample) const;
  bool has_own_place(const Entry& entry) const;
  // Makes the entry the caller's to fill. False if it is full or being filled.
  static bool begin_filling(Entry& entry);
  // The entry of a sample without a place of its own, being filled; null if it has one already or
  // there is no room.
  Entry* begin_guest(uint64_t sample, uint64_t size);
  void fill(Entry& entry, std::span<const std::byte> bytes, uint64_t checksum);
  // True if this call has dropped it.
  bool drop(Entry& entry);
  void let_go(Entry& entry, uint64_t sample);
  void collect_room();
  void give_back(uint64_t offset, uint64_t size);

  uint64_t budget_ = 0;
  uint64_t samples_ = 0;
  int memory_fd_ = -1;
  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;  // mapped
  memory_layout::Place* places_ = nullptr;
  Entry* entries_ = nullptr;
  std::byte* arena_ = nullptr;  // budget_ bytes
  uint32_t own_places_ = 0;     // the first entries; those behind belong to guests
  uint32_t entry_count_ = 0;    // that there is room for
  std::atomic<uint64_t> used_{0};
  std::atomic<uint32_t> entries_used_{0};

  std::mutex guests_;                  // guards the rest, and who has which guest's entry
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, never two in a row
  std::vector<uint32_t> free_entries_;
  std::vector<uint32_t> leaving_;  // dropped; somebody may still copy out of them
};

}  // namespace foreload
