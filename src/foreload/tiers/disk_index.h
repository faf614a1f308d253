// SPDX-License-Identifier: Apache-2.0
//
// Where on disk every sample is, and which segments are worth keeping. The writer, the readers and
// the owner of the tier use it at the same time; one lock guards it, and nobody does I/O under it.
//
// Costs about 72 bytes of memory per sample held.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "foreload/tiers/descriptor.h"
#include "foreload/tiers/disk.h"
#include "foreload/tiers/segment_format.h"
#include "foreload/tiers/slots.h"

namespace foreload::disk_cache {

// A segment's file. The index guards what is not const.
struct Segment {
  Segment(const Slot& of_slot, uint64_t its_number, SegmentHeader its_header)
      : slot(of_slot), number(its_number), header(its_header) {}

  const Slot& slot;
  const uint64_t number;
  const SegmentHeader header;
  uint64_t end = 0;               // of the last record
  uint64_t file_bytes = 0;        // on disk
  uint64_t sidecar_size = 0;      // on disk; 0: there is none
  uint64_t wanted_bytes = 0;      // that wanted records take
  std::vector<uint64_t> samples;  // whose records are here, or were
  bool removed = false;           // guarded by SegmentFiles
};

struct RecordPlace {
  std::shared_ptr<Segment> segment;
  uint64_t offset = 0;  // of the record's header
  uint64_t size = 0;    // of the payload
  uint64_t version = 0;
  uint64_t checksum = 0;  // of the payload

  bool same_place(const RecordPlace& other) const {
    return segment == other.segment && offset == other.offset;
  }
};

class DiskIndex {
 public:
  struct Record {
    uint64_t sample = 0;
    RecordPlace place;
    bool wanted = true;
  };

  void add_segment(std::shared_ptr<Segment> segment);
  // Its records are forgotten with it.
  void remove_segment(const Segment& segment);
  void resize(Segment& segment, uint64_t end, uint64_t file_bytes, uint64_t sidecar_size);

  // Replaces what was known about the sample.
  void add(uint64_t sample, const RecordPlace& place);
  // If the sample is still where it was.
  void move(uint64_t sample, const RecordPlace& from, const RecordPlace& to);
  void drop(uint64_t sample);
  void drop_at(uint64_t sample, const RecordPlace& place);
  void keep(const std::function<bool(uint64_t sample, uint64_t version)>& wanted);

  std::optional<RecordPlace> find(uint64_t sample) const;
  bool holds(uint64_t sample) const;
  uint64_t payload() const;
  std::vector<DiskEntry> entries() const;  // in ascending order of samples
  // Those that are still in this segment, in the order of the file.
  std::vector<Record> records_of(const Segment& segment) const;

  // The segment with the fewest wanted bytes; null if there is none.
  std::shared_ptr<Segment> least_wanted() const;
  // The same among segments that are worth rewriting: at least a quarter is not wanted, and what is
  // wanted fits into `room` bytes or, if some may be lost, is less than the rest. `not_this` is
  // being written.
  std::shared_ptr<Segment> victim(const Segment* not_this, uint64_t room, bool may_lose) const;

 private:
  struct Entry {
    Segment* segment;
    uint64_t offset;
    uint64_t size;
    uint64_t version;
    uint64_t checksum;
    bool wanted;
  };
  using Entries = std::unordered_map<uint64_t, Entry>;
  RecordPlace place_of(const Entry& entry) const;
  void forget(Entries::iterator entry);

  mutable std::mutex mutex_;  // guards the rest
  std::unordered_map<const Segment*, std::shared_ptr<Segment>> segments_;
  Entries entries_;
  uint64_t payload_ = 0;
};

// Open files of segments, the most recently opened ones. A large cache has more segments than a
// process may have files. Any thread may use it.
class SegmentFiles {
 public:
  SegmentFiles(bool direct, std::shared_ptr<Operations> operations)
      : direct_(direct), operations_(std::move(operations)) {}

  // Null with errno set if the file cannot be opened.
  std::shared_ptr<BlockFile> open(const Segment& segment);
  // Null with errno set if the file is there already or cannot be made.
  std::shared_ptr<BlockFile> create(const Segment& segment);
  // Closes the file as soon as nobody reads it. REQUIRES: the index has removed the segment.
  void remove(Segment& segment);

 private:
  std::shared_ptr<BlockFile> open(const Segment& segment, int flags);
  void remember(const Segment& segment, const std::shared_ptr<BlockFile>& file);

  static constexpr size_t kMostOpen = 128;
  const bool direct_;
  const std::shared_ptr<Operations> operations_;
  std::mutex mutex_;  // guards the rest
  std::unordered_map<const Segment*, std::shared_ptr<BlockFile>> files_;
  std::deque<const Segment*> opened_;  // the keys of files_, oldest first
};

}  // namespace foreload::disk_cache
