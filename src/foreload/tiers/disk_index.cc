// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_index.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace foreload::disk_cache {

void DiskIndex::add_segment(std::shared_ptr<Segment> segment) {
  const std::lock_guard lock(mutex_);
  const Segment* key = segment.get();
  segments_.emplace(key, std::move(segment));
}

void DiskIndex::remove_segment(const Segment& segment) {
  const std::lock_guard lock(mutex_);
  for (const uint64_t sample : segment.samples) {
    const auto entry = entries_.find(sample);
    if (entry != entries_.end() && entry->second.segment == &segment) forget(entry);
  }
  segments_.erase(&segment);
}

void DiskIndex::resize(Segment& segment, uint64_t end, uint64_t file_bytes, uint64_t sidecar_size) {
  const std::lock_guard lock(mutex_);
  segment.end = end;
  segment.file_bytes = file_bytes;
  segment.sidecar_size = sidecar_size;
}

void DiskIndex::add(uint64_t sample, const RecordPlace& place) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(sample);
  if (known != entries_.end()) forget(known);
  Segment* segment = place.segment.get();
  entries_[sample] = {segment, place.offset, place.size, place.version, place.checksum, true};
  segment->samples.push_back(sample);
  segment->wanted_bytes += record_bytes(place.size);
  payload_ += place.size;
}

void DiskIndex::move(uint64_t sample, const RecordPlace& from, const RecordPlace& to) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(sample);
  if (known == entries_.end() || !place_of(known->second).same_place(from)) return;
  const bool wanted = known->second.wanted;
  forget(known);
  Segment* segment = to.segment.get();
  entries_[sample] = {segment, to.offset, to.size, to.version, to.checksum, wanted};
  segment->samples.push_back(sample);
  if (wanted) segment->wanted_bytes += record_bytes(to.size);
  payload_ += to.size;
}

void DiskIndex::forget(Entries::iterator entry) {
  const Entry& known = entry->second;
  if (known.wanted) known.segment->wanted_bytes -= record_bytes(known.size);
  payload_ -= known.size;
  entries_.erase(entry);
}

void DiskIndex::drop(uint64_t sample) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(sample);
  if (known != entries_.end()) forget(known);
}

void DiskIndex::drop_at(uint64_t sample, const RecordPlace& place) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(sample);
  if (known != entries_.end() && place_of(known->second).same_place(place)) forget(known);
}

void DiskIndex::keep(const std::function<bool(uint64_t sample, uint64_t version)>& wanted) {
  std::vector<DiskEntry> unwanted = entries();
  std::erase_if(unwanted, [&](const DiskEntry& e) { return wanted(e.sample, e.version); });
  const std::lock_guard lock(mutex_);
  for (const DiskEntry& entry : unwanted) {
    const auto known = entries_.find(entry.sample);
    if (known == entries_.end() || known->second.version != entry.version) continue;
    if (known->second.wanted) known->second.segment->wanted_bytes -= record_bytes(entry.size);
    known->second.wanted = false;
  }
}

RecordPlace DiskIndex::place_of(const Entry& entry) const {
  return {segments_.at(entry.segment), entry.offset, entry.size, entry.version, entry.checksum};
}

std::optional<RecordPlace> DiskIndex::find(uint64_t sample) const {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(sample);
  if (known == entries_.end()) return std::nullopt;
  return place_of(known->second);
}

bool DiskIndex::holds(uint64_t sample) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(sample);
}

uint64_t DiskIndex::payload() const {
  const std::lock_guard lock(mutex_);
  return payload_;
}

std::vector<DiskEntry> DiskIndex::entries() const {
  std::vector<DiskEntry> entries;
  {
    const std::lock_guard lock(mutex_);
    entries.reserve(entries_.size());
    for (const auto& [sample, entry] : entries_)
      entries.push_back({sample, entry.version, entry.size});
  }
  std::sort(entries.begin(), entries.end(),
            [](const DiskEntry& a, const DiskEntry& b) { return a.sample < b.sample; });
  return entries;
}

std::vector<DiskIndex::Record> DiskIndex::records_of(const Segment& segment) const {
  std::vector<Record> records;
  {
    const std::lock_guard lock(mutex_);
    for (const uint64_t sample : segment.samples) {
      const auto known = entries_.find(sample);
      if (known == entries_.end() || known->second.segment != &segment) continue;
      records.push_back({sample, place_of(known->second), known->second.wanted});
    }
  }
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.place.offset < b.place.offset; });
  // A sample that was written here twice is named twice.
  const auto same = [](const Record& a, const Record& b) { return a.sample == b.sample; };
  records.erase(std::unique(records.begin(), records.end(), same), records.end());
  return records;
}

std::shared_ptr<Segment> DiskIndex::least_wanted() const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Segment> least;
  for (const auto& [key, segment] : segments_) {
    if (!least || segment->wanted_bytes < least->wanted_bytes) least = segment;
  }
  return least;
}

std::shared_ptr<Segment> DiskIndex::victim(const Segment* not_this, uint64_t room,
                                           bool may_lose) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Segment> least;
  for (const auto& [key, segment] : segments_) {
    if (key == not_this) continue;
    // Padding at the end of the last block is nothing to win.
    const uint64_t bytes =
        segment->file_bytes >= segment->end + kBlockBytes ? segment->file_bytes : segment->end;
    const uint64_t kept = segment->wanted_bytes + sizeof(SegmentHeader);
    const uint64_t won = bytes > kept ? bytes - kept : 0;
    // Beside the records, their part of a sidecar, and blocks that are begun.
    const uint64_t needed = kept + sidecar_bytes(segment->samples.size()) + 4 * kBlockBytes;
    const bool worth_it =
        won > 0 && won >= bytes / 4 && (needed <= room || (may_lose && kept < won));
    if (segment->wanted_bytes > 0 && !worth_it) continue;
    if (!least || segment->wanted_bytes < least->wanted_bytes) least = segment;
  }
  return least;
}

std::shared_ptr<BlockFile> SegmentFiles::open(const Segment& segment) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = files_.find(&segment);
    if (known != files_.end()) return known->second;
  }
  return open(segment, O_RDONLY);
}

std::shared_ptr<BlockFile> SegmentFiles::create(const Segment& segment) {
  return open(segment, O_RDWR | O_CREAT | O_EXCL);
}

std::shared_ptr<BlockFile> SegmentFiles::open(const Segment& segment, int flags) {
  const auto start = std::chrono::steady_clock::now();
  auto file = BlockFile::open(segment.slot.folder.get(), segment_name(segment.number).c_str(),
                              flags, direct_);
  const int error = errno;
  if (operations_) {
    operations_->count(Operation::open, std::chrono::steady_clock::now() - start, 0, !file);
  }
  if (file) remember(segment, file);
  errno = error;
  return file;
}

void SegmentFiles::remember(const Segment& segment, const std::shared_ptr<BlockFile>& file) {
  const std::lock_guard lock(mutex_);
  if (segment.removed) return;
  if (files_.insert_or_assign(&segment, file).second) opened_.push_back(&segment);
  while (files_.size() > kMostOpen) {
    files_.erase(opened_.front());
    opened_.pop_front();
  }
}

void SegmentFiles::remove(Segment& segment) {
  const std::lock_guard lock(mutex_);
  segment.removed = true;
  files_.erase(&segment);
  std::erase(opened_, &segment);
}

}  // namespace foreload::disk_cache
