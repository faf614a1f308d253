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
  uint64_t reads = 0;
  uint64_t bytes = 0;

  void add(uint64_t times, uint64_t size) {
    reads += times;
    bytes += times * size;
  }
  Volume& operator+=(const Volume& other);
  Volume& operator*=(double factor);
};

struct PlannedTraffic {
  Volume read;                // by all ranks over all epochs, padding included
  Volume covered;             // samples kept somewhere, each counted once
  std::vector<Volume> owned;  // the same by tier of the owner
  std::vector<Volume> kept;   // by tier: copies of anybody, replicas included
  std::vector<Volume> local;  // by tier of the reader
  std::vector<Volume> peer;   // by tier of the rank that serves
  Volume source_first;        // from the source in the first epoch
  Volume source_later;
  uint64_t source_bytes_lower_bound = 0;
  // Entry c: samples that a rank reads c times in the counted epochs, summed over ranks; empty for
  // a computed placement.
  std::vector<uint64_t> access_histogram;
  // Epochs that were looked at one by one; the others are taken to be like them.
  uint64_t counted_epochs = 0;

  uint64_t source_bytes() const { return source_first.bytes + source_later.bytes; }
};

// The least that has to come from the source: the sum over epochs of
//   max(0, bytes(A_e) - min(capacity, bytes(S_e)))
// where A_e are the distinct samples that epoch e reads and S_e all that were read before it or
// held from the start. For full epochs of a cold run that is S + (E - 1) max(0, S - capacity). It
// holds for every order without replacement; a real run may exceed it by one largest sample per
// rank, tier and epoch, and by padding. `epoch_bytes` has bytes(A_e), `seen_bytes` has bytes(S_e).
uint64_t source_lower_bound(std::span<const uint64_t> epoch_bytes,
                            std::span<const uint64_t> seen_bytes, uint64_t capacity);

// Counts what the table's epochs read under a placement, and extrapolates to `epochs`.
// REQUIRES: epochs >= table.epochs().
Result<PlannedTraffic> measure_traffic(const ReaderTable& table, const Sizes& sizes,
                                       const Capacities& capacities, const Placement& placement,
                                       uint64_t epochs, const PlacementOptions& options);

// The expectation for a computed placement, from sizes and capacities alone. `first` and `later`
// say how the first epoch and each other one is dealt out.
PlannedTraffic expect_traffic(const Sizes& sizes, const Capacities& capacities,
                              const Placement& placement, const Sharding& first,
                              const Sharding& later, uint64_t epochs);

}  // namespace foreload
