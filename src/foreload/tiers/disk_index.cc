// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_index.h"

#include <fcntl.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <chrono>

namespace foreload::disk_cache {

namespace {

// Less is eaten by the blocks, the header and the sidecar of the segment that follows.
constexpr uint64_t kLeastWon = 4 * kBlockBytes;

// Bytes that rewriting the segment would win. Padding at the end of the last block is nothing.
uint64_t won_from(const Segment& segment) {
  const uint64_t bytes =
      segment.file_bytes >= segment.end + kBlockBytes ? segment.file_bytes : segment.end;
  const uint64_t kept = segment.wanted_bytes + sizeof(SegmentHeader);
  return bytes > kept ? bytes - kept : 0;
}

}  // namespace

DiskIndex::Borrowers DiskIndex::lend() {
  const std::lock_guard lock(mutex_);
  const Borrowers bit = ~borrowers_ & (borrowers_ + 1);
  assert(bit != 0);
  borrowers_ |= bit;
  for (auto& entry : entries_) entry.second.declined &= ~bit;  // of who had the bit before
  count_all();
  return bit;
}

void DiskIndex::give_back(Borrowers borrower) {
  const std::lock_guard lock(mutex_);
  borrowers_ &= ~borrower;
  spoken_ &= ~borrower;
  // Who is last need not wait: nobody puts anything before somebody else comes.
  if (borrowers_ != 0) count_all();
}

void DiskIndex::keep(Borrowers borrower, const Tier::Wanted& wanted) {
  std::vector<std::pair<CopyKey, bool>> answers;
  for (const FoundCopy& copy : copies()) answers.emplace_back(copy.key, wanted(copy.key));
  const std::lock_guard lock(mutex_);
  spoken_ |= borrower;
  for (const auto& [key, yes] : answers) {
    const auto known = entries_.find(key);
    if (known == entries_.end()) continue;
    Borrowers& declined = known->second.declined;
    declined = yes ? declined & ~borrower : declined | borrower;
    count(*known);
  }
}

void DiskIndex::want(Borrowers borrower, const CopyKey& key) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(key);
  if (known == entries_.end()) return;
  known->second.declined &= ~borrower;
  count(*known);
}

bool DiskIndex::wanted(const Entries::value_type& entry) const {
  return borrowers_ == 0 || (~entry.second.declined & borrowers_) != 0 ||
         pins_.contains(entry.first);
}

void DiskIndex::count(Entries::value_type& entry) {
  Entry& known = entry.second;
  if (known.counted) known.segment->wanted_bytes -= record_bytes(known.size);
  known.counted = wanted(entry);
  if (known.counted) known.segment->wanted_bytes += record_bytes(known.size);
}

void DiskIndex::count_all() {
  for (auto& entry : entries_) count(entry);
}

bool DiskIndex::pin(const CopyKey& key) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(key);
  if (known == entries_.end()) return false;
  if (pins_[key].count++ == 0) count(*known);
  return true;
}

bool DiskIndex::pinned(const CopyKey& key) const {
  const std::lock_guard lock(mutex_);
  return pins_.contains(key);
}

void DiskIndex::unpin(const CopyKey& key) {
  const std::lock_guard lock(mutex_);
  const auto pins = pins_.find(key);
  if (--pins->second.count > 0) return;
  const bool dropped = pins->second.dropped;
  pins_.erase(pins);
  const auto known = entries_.find(key);
  if (known == entries_.end()) return;
  if (dropped) return forget(known);
  count(*known);
}

void DiskIndex::add_segment(std::shared_ptr<Segment> segment) {
  const std::lock_guard lock(mutex_);
  const Segment* key = segment.get();
  segments_.emplace(key, std::move(segment));
}

void DiskIndex::forget_in(const Segment& segment, bool wanted_too) {
  for (const CopyKey& key : segment.keys) {
    const auto entry = entries_.find(key);
    if (entry == entries_.end() || entry->second.segment != &segment) continue;
    if (wanted_too || !entry->second.counted) forget(entry);
  }
}

void DiskIndex::remove_segment(const Segment& segment) {
  const std::lock_guard lock(mutex_);
  forget_in(segment, true);
  segments_.erase(&segment);
}

void DiskIndex::forget_unwanted(const Segment& segment) {
  const std::lock_guard lock(mutex_);
  forget_in(segment, false);
}

void DiskIndex::resize(Segment& segment, uint64_t end, uint64_t file_bytes, uint64_t sidecar_size) {
  const std::lock_guard lock(mutex_);
  segment.end = end;
  segment.file_bytes = file_bytes;
  segment.sidecar_size = sidecar_size;
}

void DiskIndex::add(const RecordPlace& place, Borrowers borrower) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(place.record.key);
  if (known != entries_.end()) forget(known);
  insert(place, spoken_ & ~borrower);
}

void DiskIndex::move(const RecordPlace& from, const RecordPlace& to) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(to.record.key);
  if (known == entries_.end() || !place_of(*known).same_place(from)) return;
  const Borrowers declined = known->second.declined;
  forget(known);
  insert(to, declined);
}

void DiskIndex::insert(const RecordPlace& place, Borrowers declined) {
  const RecordEntry& record = place.record;
  Segment* segment = place.segment.get();
  const auto [entry, inserted] = entries_.emplace(
      record.key,
      Entry{segment, record.offset, record.size, record.payload_checksum, declined, false});
  count(*entry);
  segment->keys.push_back(record.key);
  payload_ += record.size;
}

void DiskIndex::forget(Entries::iterator entry) {
  const Entry& known = entry->second;
  if (known.counted) known.segment->wanted_bytes -= record_bytes(known.size);
  payload_ -= known.size;
  entries_.erase(entry);
}

void DiskIndex::drop(const CopyKey& key) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(key);
  if (known == entries_.end()) return;
  const auto pins = pins_.find(key);
  if (pins == pins_.end()) return forget(known);
  pins->second.dropped = true;
}

void DiskIndex::drop_at(const RecordPlace& place) {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(place.record.key);
  if (known != entries_.end() && place_of(*known).same_place(place)) forget(known);
}

RecordPlace DiskIndex::place_of(const Entries::value_type& entry) const {
  const Entry& known = entry.second;
  return {segments_.at(known.segment), {entry.first, known.offset, known.size, known.checksum}};
}

std::optional<RecordPlace> DiskIndex::find(const CopyKey& key) const {
  const std::lock_guard lock(mutex_);
  const auto known = entries_.find(key);
  if (known == entries_.end()) return std::nullopt;
  return place_of(*known);
}

bool DiskIndex::holds(const CopyKey& key) const {
  const std::lock_guard lock(mutex_);
  return entries_.contains(key);
}

uint64_t DiskIndex::payload() const {
  const std::lock_guard lock(mutex_);
  return payload_;
}

std::vector<FoundCopy> DiskIndex::copies() const {
  const std::lock_guard lock(mutex_);
  std::vector<FoundCopy> copies;
  copies.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) copies.push_back({key, entry.size});
  return copies;
}

std::vector<RecordPlace> DiskIndex::records_of(const Segment& segment) const {
  std::vector<RecordPlace> records;
  {
    const std::lock_guard lock(mutex_);
    for (const CopyKey& key : segment.keys) {
      const auto known = entries_.find(key);
      if (known != entries_.end() && known->second.segment == &segment)
        records.push_back(place_of(*known));
    }
  }
  const auto offset = [](const RecordPlace& place) { return place.record.offset; };
  std::ranges::sort(records, {}, offset);
  // A copy that was written here twice is named twice.
  const auto twice = std::ranges::unique(records, {}, offset);
  records.erase(twice.begin(), twice.end());
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

std::shared_ptr<Segment> DiskIndex::victim(const Segment* not_this,
                                           std::optional<uint64_t> room) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Segment> least;
  for (const auto& [key, segment] : segments_) {
    if (key == not_this) continue;
    const uint64_t won = won_from(*segment);
    if (segment->wanted_bytes > 0 && won < kLeastWon) continue;
    if (segment->wanted_bytes > 0 && room) {
      // Beside the records, their part of a sidecar, and blocks that are begun.
      const uint64_t needed = segment->wanted_bytes + sizeof(SegmentHeader) +
                              sidecar_bytes(segment->keys.size()) + 4 * kBlockBytes;
      if (won < segment->file_bytes / 4 || needed > *room) continue;
    }
    if (!least || segment->wanted_bytes < least->wanted_bytes) least = segment;
  }
  return least;
}

uint64_t DiskIndex::to_be_won() const {
  const std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [key, segment] : segments_) {
    const uint64_t won = won_from(*segment);
    if (segment->wanted_bytes == 0 || won >= kLeastWon) bytes += won;
  }
  return bytes;
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
  count_operation(operations_, Operation::open, start, 0, !file);
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
