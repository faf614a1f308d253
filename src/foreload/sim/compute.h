// SPDX-License-Identifier: Apache-2.0
//
// How long ranks compute: bytes over the compute rate, with the jitter and the stragglers that a
// scenario asks for. A function of (seed, rank, step), so that all policies meet the same.
// Immutable; any thread may use it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "foreload/base/random.h"
#include "foreload/sim/scenario.h"

namespace foreload::sim {

class Compute {
 public:
  Compute(const TrainingSettings& training, uint32_t ranks)
      : training_(training), stragglers_(training.straggler_share * ranks) {}

  // Seconds per byte of a rank in a step, counted through all epochs.
  double pace(uint32_t rank, uint64_t step) const {
    double factor = 1;
    if (training_.jitter > 0)
      factor += training_.jitter * philox_normal(training_.seed, step, kJitter + rank)[0];
    if (rank < stragglers_) factor *= training_.straggler_factor;
    return std::max(0.0, factor) / training_.compute;
  }

 private:
  static constexpr uint64_t kJitter = uint64_t{1} << 40;  // which random numbers these are

  TrainingSettings training_;
  double stragglers_;  // the first so many ranks
};

}  // namespace foreload::sim
