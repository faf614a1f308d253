// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "foreload/tiers/disk_writer.h"

namespace foreload::disk_cache {

bool DiskWriter::goes_into_current(uint64_t size) const {
  return current_ &&
         (records_ == 0 || base_ + fill_ + record_bytes(size) <= core_->settings.segment_bytes);
}

// Whether a record can be written without ever exceeding the budget, the sidecars of the segments
// being written included.
bool DiskWriter::fits(uint64_t size) const {
  const uint64_t now = current_ ? current_->file_bytes : 0;
  uint64_t total = core_->used - now;
  if (goes_into_current(size)) {
    total += allocated_bytes(base_ + fill_ + record_bytes(size)) +
             allocated_bytes(sidecar_bytes(records_ + 1));
  } else {
    if (current_) {
      total += allocated_bytes(base_ + fill_) + allocated_bytes(sidecar_bytes(records_));
    }
    total += allocated_bytes(sizeof(SegmentHeader) + record_bytes(size)) +
             allocated_bytes(sidecar_bytes(1));
  }
  return total <= core_->settings.budget;
}

// What could be written beside what is promised already: the current segment's end and sidecar.
uint64_t DiskWriter::room() const {
  uint64_t taken = core_->used;
  if (current_) {
    taken += allocated_bytes(base_ + fill_) - current_->file_bytes;
    taken += allocated_bytes(sidecar_bytes(records_));
  }
  return core_->settings.budget - std::min(core_->settings.budget, taken);
}

// After it, begin_segment() and append() can follow. False if there is no room to be won.
bool DiskWriter::make_room(uint64_t size) {
  // Begun early enough, nothing that is wanted is lost: there is still room to save it.
  while (room() < core_->settings.segment_bytes) {
    const auto victim = core_->index.victim(current_.get(), room(), false);
    if (!victim) break;
    if (!reclaim(victim)) return false;
  }
  while (!fits(size)) {
    std::shared_ptr<Segment> victim = core_->index.victim(current_.get(), room(), true);
    if (!victim && current_ && records_ > 0) {
      // Perhaps it is the current segment that has little wanted left in it.
      if (unflushed_ && !flush()) return false;
      victim = core_->index.victim(nullptr, room(), true);
      if (victim && !seal()) return false;
    }
    if (!victim || !reclaim(victim)) return false;
  }
  return goes_into_current(size) || seal();
}

// Saves what is wanted of a segment as far as there is room, and deletes it. False if that was
// broken off, or the tier is dead.
bool DiskWriter::reclaim(const std::shared_ptr<Segment>& victim) {
  for (const DiskIndex::Record& record : core_->index.records_of(*victim)) {
    if (core_->writes.stopped()) return false;  // both copies stay, and are right
    if (!record.wanted || !fits(record.place.size)) continue;
    if (!goes_into_current(record.place.size) && !seal()) return false;
    if (!move_record(record)) return false;
  }
  if (unflushed_ && !flush()) return false;
  const int error = delete_segment(*core_, victim);
  if (error != 0) die("a segment cannot be deleted", error);
  return error == 0;
}

bool DiskWriter::move_record(const DiskIndex::Record& record) {
  const RecordPlace& place = record.place;
  const uint64_t start = place.offset / kBlockBytes * kBlockBytes;
  const uint64_t end = place.offset + sizeof(RecordHeader) + place.size;
  const uint64_t bytes = round_up(end, kBlockBytes) - start;
  const std::shared_ptr<BlockFile> file = core_->files.open(*place.segment);
  const Blocks blocks = make_blocks(bytes);
  if (!file || !blocks) return true;  // the record is lost, which is no reason to stop
  core_->reads.wait_for_quiet(std::chrono::milliseconds(20));
  const auto began = std::chrono::steady_clock::now();
  const int64_t n = file->read(start, {blocks.get(), bytes});
  core_->count(Operation::read, began, n < 0 ? 0 : static_cast<uint64_t>(n), n < 0);
  if (n < static_cast<int64_t>(end - start)) return true;
  file->forget(start, bytes);
  const std::span<const std::byte> payload(
      blocks.get() + (place.offset - start) + sizeof(RecordHeader), place.size);
  if (checksum64(payload) != place.checksum) return true;
  if (!begin_segment()) return false;
  Unpublished moved;
  moved.sample = record.sample;
  moved.place = place;
  moved.from = place;
  return append(std::move(moved), payload);
}

int delete_segment(DiskCore& core, const std::shared_ptr<Segment>& segment) {
  core.index.remove_segment(*segment);
  core.files.remove(*segment);
  const int folder = segment->slot.folder.get();
  // The sidecar goes first: a segment without one is read again, one without a segment is litter.
  for (const std::string& name : {sidecar_name(segment->number), segment_name(segment->number)}) {
    if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) return errno;
  }
  core.used -= allocated_bytes(segment->file_bytes) + allocated_bytes(segment->sidecar_size);
  return 0;
}

}  // namespace foreload::disk_cache
