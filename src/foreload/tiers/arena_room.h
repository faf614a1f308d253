// SPDX-License-Identifier: Apache-2.0
//
// Room in an arena, in runs of small units. Whatever is free can be had: a request that no single
// free run fits gets several, the largest first, so that fragmentation never costs room, only the
// handling of more runs. Free runs are kept by classes of size in lists that lie in the free memory
// itself (two-level segregated fit), so taking and giving back take a few steps. What was never
// used is in no list and is not touched: the system clears a page when it is first written to,
// which must not happen while others wait.
//
// REQUIRES: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "foreload/tiers/memory_layout.h"

namespace foreload {

class ArenaRoom {
 public:
  using Run = memory_layout::Run;

  // REQUIRES: `unit` is at least 16.
  ArenaRoom(std::byte* arena, uint64_t unit, uint32_t units);

  // Puts so many units into `runs`, which is empty before. False if they are not free.
  bool take(uint32_t units, std::vector<Run>& runs);
  void give_back(Run run);
  uint32_t free_units() const { return free_; }
  // Beside the arena, as far as it is used.
  uint64_t overhead() const { return units_ / 8; }

 private:
  // At the beginning of a free run; its last four bytes are `count` again.
  struct Free {
    uint32_t count;
    uint32_t previous;  // in the list of its class; kNone: the first
    uint32_t next;
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  // Each power of two is split in eight classes.
  static constexpr unsigned kSteps = 8;
  static constexpr unsigned kClasses = 32 * kSteps;
  static unsigned class_of(uint32_t count);

  Free load(uint32_t at) const;
  void store(uint32_t at, const Free& run);
  uint32_t count_before(uint32_t at) const;
  void mark(Run run, bool is_free);
  bool marked(uint32_t unit) const { return (ends_[unit / 64] >> unit % 64 & 1) != 0; }
  void insert(Run run);
  Run remove(uint32_t at);
  // So many units, or as many as there are in a row. REQUIRES: something is free.
  Run take_run(uint32_t units);
  // The first class from this one on that has a run; kClasses if none has.
  unsigned class_from(unsigned number) const;
  unsigned largest_class() const;

  struct Unmap {
    void operator()(uint64_t* memory) const { std::free(memory); }
  };

  std::byte* const arena_;
  const uint64_t unit_;
  const uint32_t units_;
  uint32_t free_;
  uint32_t unused_ = 0;  // from here on everything is free, and in no list
  // The first and the last unit of each free run. Zeros that cost nothing before they are used.
  std::unique_ptr<uint64_t[], Unmap> ends_;
  std::array<uint32_t, kClasses> heads_;
  std::array<uint64_t, kClasses / 64> filled_{};  // a bit per class that has a run
};

}  // namespace foreload
