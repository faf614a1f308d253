// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_leftovers.h"

#include <unistd.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "foreload/tiers/disk_writer.h"
#include "foreload/tiers/segment_scan.h"

namespace foreload::disk_cache {
namespace {

struct Loaded {
  std::shared_ptr<Segment> segment;
  ScannedSegment scanned;
  bool readable = true;
};

Result<void> load_slot(const Slot& slot, std::vector<Loaded>& loaded, uint64_t& outdated) {
  FORELOAD_TRY(const SlotFiles files, list_slot(slot));
  const int folder = slot.folder.get();
  for (const std::string& name : files.unfinished) ::unlinkat(folder, name.c_str(), 0);
  for (const uint64_t number : files.sidecars) {
    if (!std::binary_search(files.segments.begin(), files.segments.end(), number))
      ::unlinkat(folder, sidecar_name(number).c_str(), 0);
  }
  for (const uint64_t number : files.segments) {
    Loaded next;
    const int error = scan_segment(folder, number, next.scanned);
    if (error == 0 && next.scanned.kind != SegmentKind::ours) {
      if (next.scanned.kind == SegmentKind::outdated) outdated += next.scanned.file_bytes;
      ::unlinkat(folder, sidecar_name(number).c_str(), 0);
      ::unlinkat(folder, segment_name(number).c_str(), 0);
      continue;
    }
    // A segment that cannot be read (to its end) is good for the records found, and for its room.
    next.segment = std::make_shared<Segment>(slot, number, next.scanned.header);
    next.segment->end = std::max<uint64_t>(next.scanned.end, sizeof(SegmentHeader));
    next.segment->file_bytes = next.scanned.file_bytes;
    next.segment->sidecar_size = next.scanned.sidecar_bytes;
    if (error != 0) next.readable = false;
    loaded.push_back(std::move(next));
  }
  return {};
}

bool can_go_on(const DiskCore& core, const Loaded& loaded) {
  const Segment& segment = *loaded.segment;
  return loaded.readable && &segment.slot == &core.slots.front() && loaded.scanned.sidecar_right &&
         segment.file_bytes % kBlockBytes == 0 && segment.end <= segment.file_bytes &&
         segment.end < core.settings.segment_bytes / 4 * 3;
}

// So that the next opening need not walk through the segment again. Room permitting: a sidecar that
// was there is replaced, and for a moment both exist.
void mend_sidecar(DiskCore& core, Loaded& loaded) {
  Segment& segment = *loaded.segment;
  const uint64_t size = sidecar_bytes(loaded.scanned.records.size());
  if (core.used + allocated_bytes(size) > core.settings.budget) return;
  const uint64_t covered = segment.file_bytes / kRecordAlignment * kRecordAlignment;
  if (write_sidecar(segment.slot.folder.get(), segment.number, segment.header, covered,
                    loaded.scanned.records) != 0)
    return;
  core.used += allocated_bytes(size);
  core.used -= allocated_bytes(segment.sidecar_size);
  core.index.resize(segment, segment.end, segment.file_bytes, size);
}

}  // namespace

Result<Leftovers> find_leftovers(DiskCore& core) {
  Leftovers leftovers;
  std::vector<Loaded> loaded;
  for (const Slot& slot : core.slots) {
    FORELOAD_CHECK(load_slot(slot, loaded, leftovers.outdated));
    core.used += kBlockBytes;  // the lock
  }
  // Later records of a copy replace earlier ones.
  std::sort(loaded.begin(), loaded.end(), [](const Loaded& a, const Loaded& b) {
    return std::tuple(a.scanned.header.born, a.segment->slot.number, a.segment->number) <
           std::tuple(b.scanned.header.born, b.segment->slot.number, b.segment->number);
  });
  if (!loaded.empty() && can_go_on(core, loaded.back())) {
    leftovers.unfinished = loaded.back().segment;
  }
  for (Loaded& one : loaded) {
    Segment& segment = *one.segment;
    leftovers.born = std::max(leftovers.born, segment.header.born);
    if (&segment.slot == &core.slots.front())
      leftovers.next_number = std::max(leftovers.next_number, segment.number + 1);
    core.used += allocated_bytes(segment.file_bytes) + allocated_bytes(segment.sidecar_size);
    core.index.add_segment(one.segment);
    for (const RecordEntry& record : one.scanned.records) core.index.add({one.segment, record});
    if (one.scanned.sidecar_right) one.scanned.records = {};
  }
  while (core.used > core.settings.budget) {
    const std::shared_ptr<Segment> least = core.index.least_wanted();
    if (!least || delete_files(core, *least) != 0) break;
    core.index.remove_segment(*least);
    if (least == leftovers.unfinished) leftovers.unfinished = nullptr;
    std::erase_if(loaded, [&](const Loaded& one) { return one.segment == least; });
  }
  for (Loaded& one : loaded) {
    if (one.readable && !one.scanned.sidecar_right) mend_sidecar(core, one);
  }
  return leftovers;
}

}  // namespace foreload::disk_cache
