// SPDX-License-Identifier: Apache-2.0
//
// What limits a job, and what to buy: simulates it again with more preprocessing threads, memory
// for batches ahead, disk, memory, network, source and ranks, and says in sentences what each would
// change. Large jobs are simulated smaller, as long as one of twice that size comes to the same.
//
// For one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/sim/scenario.h"

namespace foreload::sim {

// One change, and what it does to the job.
struct Trial {
  std::string what;  // "100 GB of memory per node instead of 50 GB"
  std::string part;  // preprocessing, staging, disk, memory, network, source, ranks
  double seconds = 0;
};

struct Advice {
  std::string policy;
  uint64_t factor = 1;  // simulated were so many times fewer samples (scaled_down.h)
  double seconds = 0;
  double lower_bound_seconds = 0;
  double first_epoch_seconds = 0;
  double later_epoch_seconds = 0;  // mean
  std::vector<Trial> trials;       // the cheapest kind of change first
  std::string limit;               // what the job waits for: compute, or a part
  std::vector<std::string> sentences;
};

// Under `policy`; empty: foreload. Fails as simulate_policy() does, and with `invalid` where the
// policy cannot run the job.
Result<Advice> advise(const Scenario& scenario, std::string policy, const Progress& progress = {});

std::string to_text(const Advice& advice);
std::string to_json(const Advice& advice);

}  // namespace foreload::sim
