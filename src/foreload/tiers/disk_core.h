// SPDX-License-Identifier: Apache-2.0
//
// What the threads of one disk tier share. They hold it together, so that a thread that is stuck in
// the operating system when the tier ends can be left behind without anything under it going away.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "foreload/base/patient_thread.h"
#include "foreload/tiers/disk.h"
#include "foreload/tiers/disk_answers.h"
#include "foreload/tiers/disk_index.h"
#include "foreload/tiers/disk_queues.h"
#include "foreload/tiers/slots.h"

namespace foreload::disk_cache {

struct DiskCore {
  DiskCore(DiskSettings chosen, std::vector<Slot> taken)
      : settings(std::move(chosen)),
        slots(std::move(taken)),
        files(settings.direct_io, settings.operations),
        puts{settings.queue_bytes} {}

  const DiskSettings settings;    // with nothing left to choose
  const std::vector<Slot> slots;  // the first is written to
  DiskIndex index;
  SegmentFiles files;
  DiskAnswers answers;
  DiskHealth health;
  GetQueue gets;
  PutQueue puts;
  std::atomic<uint64_t> used{0};  // bytes on disk
  // What happened so far, in bytes or copies.
  std::atomic<uint64_t> read_bytes{0}, written_bytes{0}, reclaimed_bytes{0}, moved_bytes{0};
  std::atomic<uint64_t> corrupt{0}, refused{0};
};

}  // namespace foreload::disk_cache
