// SPDX-License-Identifier: Apache-2.0
//
// Bulk-synchronous training with a rival policy: every rank reads its batch, consumes it sample by
// sample, and all start the next step together when the slowest has finished. While a batch is
// consumed the next one is read (double buffering), by the rank's staging threads, in reading
// order.
//
// For one thread.
#pragma once

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/sim/outcome.h"
#include "foreload/sim/rival.h"

namespace foreload::sim {

// REQUIRES: the rival does not refuse. Fails only with `cancelled`.
Result<Outcome> train(const Scenario& scenario, const Workload& workload, Rival& rival,
                      const Progress& progress = {});

}  // namespace foreload::sim
