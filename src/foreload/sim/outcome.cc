// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/outcome.h"

namespace foreload::sim {

void StallCurve::add(Time begin, Time end, double stall_seconds) {
  if (in_last_ == 0 || in_last_ == steps_per_point_) {
    if (steps_.size() == kMostPoints) {
      for (size_t i = 0; i < kMostPoints / 2; ++i) {
        const Steps& second = steps_[2 * i + 1];
        steps_[i] = {steps_[2 * i].begin, second.end, steps_[2 * i].stall + second.stall};
      }
      steps_.resize(kMostPoints / 2);
      steps_per_point_ *= 2;
    }
    steps_.push_back({begin, end, 0});
    in_last_ = 0;
  }
  steps_.back().end = end;
  steps_.back().stall += stall_seconds;
  ++in_last_;
}

std::vector<StepStall> StallCurve::points() const {
  std::vector<StepStall> points;
  for (const Steps& steps : steps_) {
    const double seconds = steps.end - steps.begin;
    points.push_back({steps.end, seconds > 0 ? steps.stall / seconds : 0});
  }
  return points;
}

}  // namespace foreload::sim
