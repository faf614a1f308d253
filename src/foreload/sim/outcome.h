// SPDX-License-Identifier: Apache-2.0
//
// What a simulated run came to. Plain values, and the curve of stalls over the run, which keeps a
// few hundred points however many steps there are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "foreload/sim/agenda.h"

namespace foreload::sim {

// Samples that the loops got, by where they came from.
struct Hits {
  std::vector<uint64_t> own;  // by tier
  uint64_t peer = 0;
  uint64_t source = 0;
};

// Some steps in a row.
struct StepStall {
  Time end = 0;
  double share = 0;  // of their time that nobody had to compute
};

// Neighbouring steps are put together two by two whenever there are too many points.
class StallCurve {
 public:
  void add(Time begin, Time end, double stall_seconds);
  std::vector<StepStall> points() const;

 private:
  static constexpr size_t kMostPoints = 512;
  struct Steps {
    Time begin = 0;
    Time end = 0;
    double stall = 0;
  };
  std::vector<Steps> steps_;
  uint64_t steps_per_point_ = 1;
  uint64_t in_last_ = 0;
};

struct Outcome {
  double seconds = 0;
  double stall_seconds = 0;  // beyond what the slowest rank of each step computes
  std::vector<double> epoch_seconds;
  uint64_t source_bytes = 0;
  Hits hits;
  std::vector<StepStall> stalls;
};

}  // namespace foreload::sim
