// SPDX-License-Identifier: Apache-2.0
//
// Where on disk every copy is, who wants it, and which segments are worth keeping. The writer, the
// readers and the owner of the tier use it at the same time; one lock guards it, and nobody does
// I/O under it.
//
// Costs about 110 bytes of memory per copy held.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "foreload/metrics/operations.h"
#include "foreload/tiers/block_file.h"
#include "foreload/tiers/segment_format.h"
#include "foreload/tiers/slots.h"
#include "foreload/tiers/tier.h"

namespace foreload::disk_cache {

// A segment's file. The index guards what is not const.
struct Segment {
  Segment(const Slot& of_slot, uint64_t its_number, SegmentHeader its_header)
      : slot(of_slot), number(its_number), header(its_header) {}

  const Slot& slot;
  const uint64_t number;
  const SegmentHeader header;
  uint64_t end = 0;           // of the last record
  uint64_t file_bytes = 0;    // on disk
  uint64_t sidecar_size = 0;  // on disk; 0: there is none
  uint64_t wanted_bytes = 0;  // that records take that are wanted or pinned
  std::vector<CopyKey> keys;  // whose records are here, or were
  bool removed = false;       // guarded by SegmentFiles
};

struct RecordPlace {
  std::shared_ptr<Segment> segment;
  RecordEntry record{};

  bool same_place(const RecordPlace& other) const {
    return segment == other.segment && record.offset == other.record.offset;
  }
};

class DiskIndex {
 public:
  using Borrowers = uint64_t;  // a bit for each

  Borrowers lend();
  void give_back(Borrowers borrower);
  void keep(Borrowers borrower, const Tier::Wanted& wanted);
  void want(Borrowers borrower, const CopyKey& key);
  // Whether the copy is here. It is wanted, and a drop waits, until as many calls of unpin().
  bool pin(const CopyKey& key);
  bool pinned(const CopyKey& key) const;
  void unpin(const CopyKey& key);

  void add_segment(std::shared_ptr<Segment> segment);
  // Its records are forgotten with it.
  void remove_segment(const Segment& segment);
  // Leaves only what is wanted or pinned.
  void forget_unwanted(const Segment& segment);
  void resize(Segment& segment, uint64_t end, uint64_t file_bytes, uint64_t sidecar_size);

  // Replaces what was known about the copy. Who put it wants it.
  void add(const RecordPlace& place, Borrowers borrower = 0);
  // If the copy is still where it was.
  void move(const RecordPlace& from, const RecordPlace& to);
  void drop(const CopyKey& key);
  void drop_at(const RecordPlace& place);

  std::optional<RecordPlace> find(const CopyKey& key) const;
  bool holds(const CopyKey& key) const;
  uint64_t payload() const;
  std::vector<FoundCopy> copies() const;
  // Those that are still in this segment, in the order of the file.
  std::vector<RecordPlace> records_of(const Segment& segment) const;

  // The segment with the fewest wanted bytes; null if there is none.
  std::shared_ptr<Segment> least_wanted() const;
  // The same among segments from which something can be won. With `room`, only those that are worth
  // it before there is need: at least a quarter is not wanted, and what is wanted fits into so many
  // bytes. `not_this` is being written.
  std::shared_ptr<Segment> victim(const Segment* not_this, std::optional<uint64_t> room) const;
  // Bytes that giving up all such segments would win.
  uint64_t to_be_won() const;

 private:
  struct Entry {
    Segment* segment;
    uint64_t offset;
    uint64_t size;
    uint64_t checksum;
    Borrowers declined;  // who does not want it
    bool counted;        // in wanted_bytes of its segment
  };
  struct Pins {
    uint64_t count = 0;
    bool dropped = false;  // goes with the last of them
  };
  using Entries = std::unordered_map<CopyKey, Entry, CopyKeyHash>;

  RecordPlace place_of(const Entries::value_type& entry) const;
  bool wanted(const Entries::value_type& entry) const;
  void count(Entries::value_type& entry);  // after something changed in whether it is wanted
  void count_all();
  void insert(const RecordPlace& place, Borrowers declined);
  void forget(Entries::iterator entry);
  void forget_in(const Segment& segment, bool wanted_too);

  mutable std::mutex mutex_;  // guards the rest
  std::unordered_map<const Segment*, std::shared_ptr<Segment>> segments_;
  Entries entries_;
  std::unordered_map<CopyKey, Pins, CopyKeyHash> pins_;  // also of copies that are gone
  uint64_t payload_ = 0;
  Borrowers borrowers_ = 0;
  Borrowers spoken_ = 0;  // who has said what they want
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
