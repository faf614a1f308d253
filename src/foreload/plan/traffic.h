// SPDX-License-Identifier: Apache-2.0
//
// What a placement costs: where each read of the job is served from, how many bytes come from the
// source, and the least that any cache of the same size could achieve.
//
// Reads are counted under foreload's protocol, whatever the placement: the first read of a sample
// goes to the source and fills its copies, later ones are served by the reader's own copy, else by
// another rank's, else by the source again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/plan/placement.h"
#include "foreload/plan/readers.h"
#include "foreload/plan/sizes.h"

namespace foreload {

// Reads and their bytes.
struct Volume {
  double reads = 0;
  double bytes = 0;
  Volume& operator+=(const Volume& other);
};

struct Traffic {
  uint64_t reads = 0;            // of all ranks over all epochs, padding included
  uint64_t covered_samples = 0;  // kept somewhere
  uint64_t covered_bytes = 0;
  uint64_t copies = 0;  // kept by anybody, replicas included
  std::vector<Volume> local;  // by tier of the reader
  std::vector<Volume> peer;   // by tier of the rank that serves
  Volume source_first_epoch;
  Volume source_later;
  uint64_t source_bytes = 0;
  uint64_t source_bytes_lower_bound = 0;
  // Entry c: samples that a rank reads c times in the counted epochs, mean over ranks.
  std::vector<double> access_histogram;
  uint64_t counted_epochs = 0;  // fewer than the job's: the rest is extrapolated
};

// bytes(A_1) - held + sum over later epochs of max(0, bytes(A_e) - capacity), where A_e are the
// distinct samples that epoch e reads. `epoch_bytes` has bytes(A_e) for each epoch. Any order
// without replacement obeys it; a real run may exceed it by one largest sample per rank, tier and
// epoch, and by padding.
uint64_t source_lower_bound(std::span<const uint64_t> epoch_bytes, uint64_t capacity,
                            uint64_t held);

}  // namespace foreload
