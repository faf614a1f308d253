// SPDX-License-Identifier: Apache-2.0
//
// How a get of the disk tier goes, whatever carries it out: find the record, read the blocks around
// the pieces that are asked for into memory of our own (direct I/O wants whole blocks), copy,
// check, answer. Threads and io_uring differ only in how the blocks get there.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "foreload/tiers/block_file.h"
#include "foreload/tiers/disk_core.h"

namespace foreload::disk_cache {

// Blocks on their way from a segment.
struct BlockRead {
  QueuedGet asked;
  RecordPlace place;
  std::shared_ptr<BlockFile> file;
  uint64_t start = 0;  // in the file; both are multiples of kBlockBytes
  uint64_t bytes = 0;
  uint64_t needed = 0;  // bytes from start to the end of what is asked for
  uint64_t done = 0;    // bytes that are there
  Blocks blocks;
  uint64_t capacity = 0;  // of blocks
  std::chrono::steady_clock::time_point began;
};

// For any number of threads at once.
class DiskReads {
 public:
  explicit DiskReads(std::shared_ptr<DiskCore> core) : core_(std::move(core)) {}

  // What to read for this; nothing if it needs no disk, with what became of it at the end of
  // `ended`.
  std::unique_ptr<BlockRead> begin(QueuedGet asked, std::vector<Ended>& ended);
  // `error` is 0 or errno; with 0 and fewer bytes than needed the file has ended early.
  Ended finish(std::unique_ptr<BlockRead> read, int error);
  // Serves the queue with the calling thread, one read after the other, until it is stopped.
  void serve_queue();
  // Answers `cancelled` what is still queued, once the queue is stopped.
  void abandon_queue();

  DiskCore& core() { return *core_; }

 private:
  std::optional<Ended> get_from_queue(const QueuedGet& asked);
  bool take_blocks(BlockRead& read);
  void give_blocks(BlockRead& read);

  const std::shared_ptr<DiskCore> core_;
  std::mutex mutex_;  // guards free_
  std::vector<std::pair<uint64_t, Blocks>> free_;
};

// Both start with the reads of the queue and end when it is stopped; the first returns nothing
// where the system has no io_uring or does not allow it.
std::optional<PatientThread> start_ring(const std::shared_ptr<DiskReads>& reads);
std::vector<PatientThread> start_pool(const std::shared_ptr<DiskReads>& reads);

}  // namespace foreload::disk_cache
