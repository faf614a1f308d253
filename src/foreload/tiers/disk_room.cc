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

// Bytes beyond the budget if a record is written, the sidecars of the segments being written
// included.
uint64_t DiskWriter::excess(uint64_t size) const {
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
  return total - std::min(total, core_->settings.budget);
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
  // Begun early enough, what is wanted moves while there is still room for both copies.
  while (room() < core_->settings.segment_bytes) {
    const auto victim = core_->index.victim(current_.get(), room());
    if (!victim) break;
    if (!reclaim(victim)) return false;
  }
  while (excess(size) > 0) {
    // Nothing is rewritten for a record that does not fit in the end.
    if (excess(size) > core_->index.to_be_won()) return false;
    std::shared_ptr<Segment> victim = core_->index.victim(current_.get(), std::nullopt);
    if (!victim && current_ && records_ > 0) {
      // Perhaps it is the current segment that has little wanted left in it.
      if (unflushed_ && !flush()) return false;
      victim = core_->index.victim(nullptr, std::nullopt);
      if (victim && !seal()) return false;
    }
    if (!victim || !reclaim(victim)) return false;
  }
  return goes_into_current(size) || seal();
}

// Moves what is wanted of a segment and deletes it. What there is no room for beside the segment is
// in memory in between. False if that was broken off, or the tier is dead.
bool DiskWriter::reclaim(const std::shared_ptr<Segment>& victim) {
  core_->index.forget_unwanted(*victim);
  std::deque<Unpublished> sheltered;
  for (const RecordPlace& place : core_->index.records_of(*victim)) {
    if (core_->puts.stopped()) break;
    auto put = read_record(place);
    if (!put) continue;  // the record is lost, which is no reason to stop
    Unpublished moved{place, {}, place};
    if (sheltered.empty() && excess(place.record.size) == 0) {
      if (!make_way(place.record.size) || !append(std::move(moved), put->from)) return false;
      continue;
    }
    core_->puts.shelter(*put);
    moved.put = QueuedPut{std::move(*put)};
    sheltered.push_back(std::move(moved));
  }
  const bool over = core_->puts.stopped();  // both copies stay, and are right
  if (over || (unflushed_ && !flush())) {
    for (Unpublished& moved : sheltered) core_->puts.finish(*moved.put, {});
    return false;
  }
  const int error = delete_files(*core_, *victim);
  if (error != 0) die("a segment cannot be deleted", error);
  for (Unpublished& moved : sheltered) {
    const uint64_t size = moved.place.record.size;
    const std::span<const std::byte> payload = moved.put->put.from;
    if (core_->health.dead() || excess(size) > 0 || !make_way(size))
      core_->puts.finish(*moved.put, {});
    else
      append(std::move(moved), payload);
  }
  if (unflushed_) flush();
  core_->index.remove_segment(*victim);
  return !core_->health.dead();
}

bool DiskWriter::make_way(uint64_t size) {
  return (goes_into_current(size) || seal()) && begin_segment();
}

// A record as something to put again; nothing if it cannot be read.
std::optional<Put> DiskWriter::read_record(const RecordPlace& place) {
  const RecordEntry& record = place.record;
  const uint64_t start = record.offset / kBlockBytes * kBlockBytes;
  const uint64_t end = record.offset + sizeof(RecordHeader) + stored_bytes(record.size);
  const uint64_t bytes = round_up(end, kBlockBytes) - start;
  const std::shared_ptr<BlockFile> file = core_->files.open(*place.segment);
  const Blocks blocks = make_blocks(bytes);
  if (!file || !blocks) return std::nullopt;
  core_->gets.wait_for_turn(traffic_, bytes);
  const auto began = std::chrono::steady_clock::now();
  const int64_t n = file->read(start, {blocks.get(), bytes});
  count_operation(core_->settings.operations, Operation::read, began,
                  n < 0 ? 0 : static_cast<uint64_t>(n), n < 0);
  if (n < static_cast<int64_t>(end - start)) return std::nullopt;
  file->forget(start, bytes);
  const auto payload = std::make_shared<std::vector<std::byte>>();
  payload->reserve(record.size);
  const std::byte* stored = blocks.get() + (record.offset - start) + sizeof(RecordHeader);
  for (uint64_t number = 0; number < pieces_of(record.size); ++number) {
    const Piece piece = read_piece(stored + piece_offset(record.size, number), record, number);
    if (checksum64(piece.bytes) != piece.checksum) return std::nullopt;
    payload->insert(payload->end(), piece.bytes.begin(), piece.bytes.end());
  }
  core_->moved_bytes += record.size;
  return Put{0, record.key, *payload, record.payload_checksum, payload};
}

int delete_files(DiskCore& core, Segment& segment) {
  core.files.remove(segment);
  const int folder = segment.slot.folder.get();
  // The sidecar goes first: a segment without one is read again, one without a segment is litter.
  for (const std::string& name : {sidecar_name(segment.number), segment_name(segment.number)}) {
    if (::unlinkat(folder, name.c_str(), 0) != 0 && errno != ENOENT) return errno;
  }
  const uint64_t bytes =
      allocated_bytes(segment.file_bytes) + allocated_bytes(segment.sidecar_size);
  core.used -= bytes;
  core.reclaimed_bytes += bytes;
  return 0;
}

}  // namespace foreload::disk_cache
