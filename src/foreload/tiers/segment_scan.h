// SPDX-License-Identifier: Apache-2.0
//
// What a segment holds, found out when a cache is opened: from its sidecar if that is right, and by
// walking from record to record where it is not, or where the segment goes on behind it. Payloads
// are not read; a record whose payload is damaged shows that when it is read.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "foreload/tiers/segment_format.h"

namespace foreload::disk_cache {

struct ScannedSegment {
  SegmentKind kind = SegmentKind::torn;
  SegmentHeader header{};
  std::vector<RecordEntry> records;  // whole ones, in the order of the file
  uint64_t end = 0;                  // of the last of them
  uint64_t file_bytes = 0;
  uint64_t sidecar_bytes = 0;  // 0: there is none
  bool sidecar_right = false;  // and nothing came behind it
};

// Returns 0 or errno, if the segment cannot be read.
int scan_segment(int folder, uint64_t number, ScannedSegment& scanned);

// Writes a sidecar as a whole or not at all, and syncs it. Returns 0 or errno.
int write_sidecar(int folder, uint64_t number, const SegmentHeader& segment, uint64_t covered,
                  std::span<const RecordEntry> records);

}  // namespace foreload::disk_cache
