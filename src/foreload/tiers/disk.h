// SPDX-License-Identifier: Apache-2.0
//
// The disk tier: copies in a few large append-only segment files below a cache folder. Every record
// carries its key and checksums, and nothing is trusted that was not verified, so the folder
// survives kill -9 and power loss; docs/formats.md describes it byte by byte. What an earlier run
// left is found again.
//
// A full or failing disk turns the tier off (dead() says why), not the run: puts are `failed` then,
// and gets still give what is there. Several processes may use one folder: each locks a part of it.
// A drop need not reach the disk: a later run may find the copy again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/metrics/operations.h"
#include "foreload/tiers/tier.h"

namespace foreload {

struct DiskSettings {
  std::filesystem::path folder;
  uint64_t budget = 0;  // bytes on disk, all files of this process below the folder together
  // Bytes on disk that it will come to, where that is known: neighbours leave it so much.
  uint64_t reserve = 0;
  uint32_t member = 0;  // which of the processes of this job on this node, and
  uint32_t members =
      1;  // how many there are: decides which leftovers of earlier runs it takes over
  uint64_t segment_bytes = 0;  // 0: chosen from the budget
  uint64_t queue_bytes = uint64_t{256}
                         << 20;  // puts that wait, together; beyond it they are `full`
  unsigned at_once = 0;   // requests that the device has at the same time; 0: as many as are good
  bool direct_io = true;  // falls back by itself where the file system has none
  bool io_uring = true;   // falls back to threads where the system has none
  std::shared_ptr<Operations> operations;
};

// Another process, or another loader of this one, that uses the folder now and shares nothing.
struct DiskNeighbour {
  std::string host;       // empty: not known
  uint64_t process = 0;   // 0: not known
  uint64_t held = 0;      // bytes on disk
  uint64_t reserved = 0;  // bytes on disk that it will come to
  uint64_t bytes() const { return held > reserved ? held : reserved; }
};
struct DiskSharing {
  std::vector<DiskNeighbour> others;
  uint64_t budget = 0;    // what they leave of the one in the settings
  uint64_t outdated = 0;  // bytes of an earlier format that were removed
};

// How many bytes of copies of this mean size fit a budget: what is left without the headers of
// records and segments and the blocks that files are rounded up to.
uint64_t disk_payload(uint64_t budget, uint64_t mean_size);
// The budget that so many bytes of copies need, and not much more.
uint64_t disk_budget_for(uint64_t payload, uint64_t mean_size);

// Opens or makes the folder and finds what is there. Fails with `unreadable` if the folder cannot
// be used, `invalid` if the budget is too small for anything or larger than the disk's free space
// plus what is held. The budget is that of the folder: others who use it now, as far as they are
// the same member, come off it, and the tier is null if they leave nothing; `sharing`, if given,
// says who they are.
//
// Its end gives puts that wait half a second before it cancels them, and finishes what it writes;
// memory and slot of what the system has not given back are held until it comes back.
Result<std::shared_ptr<Tier>> open_disk(DiskSettings settings, DiskSharing* sharing = nullptr);

}  // namespace foreload
