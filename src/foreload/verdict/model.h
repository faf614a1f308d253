// SPDX-License-Identifier: Apache-2.0
//
// How long an epoch takes by its slowest stage, and how long it would take with one thing changed.
// Plain values; any thread.
#pragma once

#include <array>
#include <vector>

#include "foreload/verdict/verdict.h"

namespace foreload {

// Seconds of an epoch that each stage needs for its work.
struct EpochModel {
  std::array<double, kLimits> stages{};  // by Limit; of the loop: what it does itself
  double seconds() const;                // of the slowest

  double& operator[](Limit limit) { return stages[static_cast<size_t>(limit)]; }
  double operator[](Limit limit) const { return stages[static_cast<size_t>(limit)]; }
};

// The epoch that the figures tell of.
EpochModel model_of(const EpochFigures& figures);
// The share of bytes that no cache has once all are full.
double missing_share(const EpochFigures& figures);
// Whether the source gave more than it will have to once the caches are full.
bool fills_caches(const EpochFigures& figures);

// A change that can be judged, and the epoch after it.
struct Change {
  enum class Kind : uint8_t {
    caches_are_full,  // nothing to do: later epochs of this run
    settings,         // of later epochs, with another setting
    next_run,         // of the first epoch of the next run
  };
  Kind kind = Kind::settings;
  std::string what;
  EpochModel then;
};
// All that make sense for such an epoch, useful or not.
std::vector<Change> changes_of(const EpochFigures& figures, Limit limit);

}  // namespace foreload
