// SPDX-License-Identifier: Apache-2.0
//
// The one thread that changes the disk cache: it appends records to the current segment, seals full
// segments with a sidecar, and wins room back from segments with little that is wanted. Records are
// gathered in one block-aligned buffer that is written when it is full or nothing waits, with at
// most one write in flight. A record is published, and its write answered, once the file has it.
//
// A write error turns the tier off: what was not published is answered `failed`, and nothing is
// written any more. Everything here runs on the writer's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/tiers/block_file.h"
#include "foreload/tiers/disk_core.h"
#include "foreload/tiers/disk_leftovers.h"

namespace foreload::disk_cache {

class DiskWriter {
 public:
  DiskWriter(std::shared_ptr<DiskCore> core, const Leftovers& leftovers);

  // Until the queue of writes is stopped; then finishes and seals what it has begun.
  void run();

 private:
  // A record that is in the buffer or the file and not in the index yet.
  struct Unpublished {
    RecordPlace place;
    std::optional<QueuedPut> put;  // none: it is moved, and still there
    RecordPlace from{};            // where it was, if it is moved
  };

  void take(QueuedPut put);
  void answer(QueuedPut& put, TierEnd end);
  // All return false when the tier is dead.
  bool append(Unpublished record, std::span<const std::byte> payload);
  bool put(std::span<const std::byte> bytes);
  bool flush();
  bool begin_segment();
  void go_on(const std::shared_ptr<Segment>& segment);
  bool seal();
  void publish();
  void die(std::string_view what, int error);

  // Room, in disk_room.cc.
  bool goes_into_current(uint64_t size) const;
  uint64_t excess(uint64_t size) const;
  bool make_room(uint64_t size);
  uint64_t room() const;
  bool reclaim(const std::shared_ptr<Segment>& victim);
  bool make_way(uint64_t size);
  std::optional<Put> read_record(const RecordPlace& place);

  const std::shared_ptr<DiskCore> core_;
  uint64_t born_;  // of the youngest segment
  uint64_t next_number_;
  std::shared_ptr<Segment> unfinished_;  // that an earlier run left, until it is gone on with

  std::shared_ptr<Segment> current_;  // null: none begun
  std::shared_ptr<BlockFile> file_;   // of current_
  uint64_t records_ = 0;              // appended to current_
  Blocks buffer_;
  uint64_t base_ = 0;  // where in the file the buffer begins; a multiple of kBlockBytes
  uint64_t fill_ = 0;  // bytes in the buffer
  bool unflushed_ = false;
  Traffic traffic_ = Traffic::fill;  // of the put that was taken last
  std::deque<Unpublished> unpublished_;
};

// Deletes a segment's file and sidecar, and takes them off the books. Returns 0 or errno.
int delete_files(DiskCore& core, Segment& segment);

}  // namespace foreload::disk_cache
