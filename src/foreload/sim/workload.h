// SPDX-License-Identifier: Apache-2.0
//
// What a scenario's ranks are to read: sample sizes, and the reading lists of every epoch in the
// order that the seed gives. Lists are computed epoch by epoch; a rival may change its copy.
//
// Immutable; for one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/plan/order.h"
#include "foreload/plan/sizes.h"
#include "foreload/sim/scenario.h"

namespace foreload::sim {

// The samples that all ranks read in one epoch.
struct EpochLists {
  uint64_t reads = 0;             // of each rank
  std::vector<uint32_t> samples;  // [rank][position]

  std::span<uint32_t> of(uint32_t rank) { return {samples.data() + rank * reads, reads}; }
  std::span<const uint32_t> of(uint32_t rank) const {
    return {samples.data() + rank * reads, reads};
  }
};

class Workload {
 public:
  // Fails with `invalid` for a data set that gives no step, or has 2^32 samples or more.
  static Result<Workload> make(const Scenario& scenario);

  const Sizes& sizes() const { return sizes_; }
  uint32_t ranks() const { return sharding_.ranks; }
  uint64_t epochs() const { return epochs_; }
  uint64_t batch_size() const { return batching_.batch_size; }
  // Of every rank in every epoch.
  uint64_t steps() const { return batching_.batches(sharding_.per_rank()); }
  uint64_t reads() const { return reads_; }
  uint64_t batch_length(uint64_t step) const { return batching_.length(reads_, step); }

  EpochLists lists(uint64_t epoch) const;
  // The least that must come from the source with caches of `capacity` bytes together.
  uint64_t source_bytes_lower_bound(uint64_t capacity) const;

 private:
  Workload(Sizes sizes, std::unique_ptr<const Order> order)
      : sizes_(std::move(sizes)), order_(std::move(order)) {}

  Sizes sizes_;
  std::unique_ptr<const Order> order_;
  Sharding sharding_;
  Batching batching_;
  uint64_t epochs_ = 1;
  uint64_t reads_ = 0;
};

}  // namespace foreload::sim
