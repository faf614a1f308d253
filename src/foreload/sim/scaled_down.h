// SPDX-License-Identifier: Apache-2.0
//
// A smaller job with the same bottlenecks as a large one, for whoever wants many answers soon: a
// part of the samples, the same part of all caches and of the memory for batches ahead, and a few
// epochs. Rates, ranks and batches stay, so a step takes as long; there are fewer of them. What a
// long run would take follows from its first epoch and its later ones.
//
// Pure; any thread may call it.
#pragma once

#include <cstdint>

#include "foreload/base/result.h"
#include "foreload/sim/outcome.h"
#include "foreload/sim/scenario.h"

namespace foreload::sim {

struct ScaledDown {
  Scenario scenario;
  uint64_t factor = 1;       // so many times fewer samples
  uint64_t epochs_left = 0;  // that are not simulated
};

// With at most `most_reads` reads, but not less than some steps an epoch; the scenario itself if it
// is small. Fails as sizes_of() does.
Result<ScaledDown> scaled_down(const Scenario& scenario, uint64_t most_reads);

// What the whole job takes, from what the small one took.
double scaled_up_seconds(const ScaledDown& small, const Outcome& outcome);

}  // namespace foreload::sim
