// SPDX-License-Identifier: Apache-2.0
//
// What earlier runs left in the slots of this process, found when the tier opens, before it has any
// thread: records go into the index, everything else is room that can be won back.
#pragma once

#include <cstdint>
#include <memory>

#include "foreload/base/result.h"
#include "foreload/tiers/disk_core.h"

namespace foreload::disk_cache {

struct Leftovers {
  uint64_t born = 0;         // of the youngest segment; a new one must be younger
  uint64_t next_number = 1;  // of a new segment in the first slot
  uint64_t outdated = 0;     // bytes of segments of an earlier format, which are gone
  // The youngest segment, if records can be appended to it: it has room, is in the first slot, and
  // was sealed. Null otherwise.
  std::shared_ptr<Segment> unfinished;
};

// Fills the index and the count of used bytes. Deletes what a crash or an earlier format left, and
// whole segments if they take more than the budget. Fails with `unreadable`.
Result<Leftovers> find_leftovers(DiskCore& core);

}  // namespace foreload::disk_cache
