// SPDX-License-Identifier: Apache-2.0
//
// Bulk-synchronous training with foreload's own plan and policy, linked, not imitated. The loop
// gets whole batches, as a user's does.
//
// For one thread.
#pragma once

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/sim/outcome.h"
#include "foreload/sim/scenario.h"
#include "foreload/sim/workload.h"

namespace foreload::sim {

// Fails as Plan::make() does, and with `cancelled`.
Result<Outcome> train_foreload(const Scenario& scenario, const Workload& workload,
                               const Progress& progress = {});

}  // namespace foreload::sim
