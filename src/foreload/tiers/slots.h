// SPDX-License-Identifier: Apache-2.0
//
// Which part of a cache folder belongs to whom. <folder>/foreload-1/<number> is a slot: a folder
// with segments, used by the one process that holds the lock on the file `lock` in it. The kernel
// takes the lock back when a process ends, however it ends, so nothing stale is ever left behind.
//
// Member m of n takes slots whose number is m modulo n: the first free one to write to, and all
// others that earlier runs left, so that together the members find everything whatever n was
// before.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "foreload/base/descriptor.h"
#include "foreload/base/result.h"
#include "foreload/tiers/disk.h"

namespace foreload::disk_cache {

// A slot this process holds, until destruction.
struct Slot {
  uint32_t number = 0;
  std::filesystem::path path;
  Descriptor folder;  // for openat and syncing
  Descriptor lock;
};

struct TakenSlots {
  std::vector<Slot> own;  // the one to write to first
  // Of the same member of another job, or of another loader in this process: in use now.
  std::vector<DiskNeighbour> others;
};

// The slots of a member. Makes folders that are missing. A slot with files of a later format is
// left alone. `reserve` is what this process will come to, written down for neighbours. Fails with
// `unreadable`. REQUIRES: member < members.
Result<TakenSlots> take_slots(const std::filesystem::path& folder, uint32_t member,
                              uint32_t members, uint64_t reserve = 0);

// Of a segment's file and its sidecar: "00000001.segment", "00000001.index".
std::string segment_name(uint64_t number);
std::string sidecar_name(uint64_t number);

struct SlotFiles {
  std::vector<uint64_t> segments;       // numbers, in ascending order
  std::vector<uint64_t> sidecars;       // numbers, in ascending order
  std::vector<std::string> unfinished;  // sidecars that were being written when a process ended
};
Result<SlotFiles> list_slot(const Slot& slot);

}  // namespace foreload::disk_cache
