// SPDX-License-Identifier: Apache-2.0
//
// Runs a scenario under every policy it names, once for each combination of its sweeps, and says
// what came out: a table for people, an object for machines.
//
// For one thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/sim/outcome.h"
#include "foreload/sim/scenario.h"

namespace foreload::sim {

// All policies, in the order of tables: the rivals, then foreload.
std::vector<std::string> policy_names();

struct PolicyResult {
  std::string policy;
  std::vector<std::pair<std::string, std::string>> set;  // what the sweeps set, key and value
  bool supported = true;
  std::string reason;  // why not
  Outcome outcome;
  double lower_bound_seconds = 0;  // of the same job
  uint64_t source_bytes_lower_bound = 0;
  std::vector<std::string> tiers;  // names
};

struct Simulation {
  std::string scenario;  // name
  std::vector<PolicyResult> results;
};

struct SimulateOptions {
  std::vector<std::string> policies;  // instead of the scenario's
  std::vector<Sweep> sweeps;          // besides the scenario's
  Progress progress;                  // in thousandths of all runs
};

// One policy, one scenario. Fails as Workload::make() does, and with `cancelled`.
Result<PolicyResult> simulate_policy(const Scenario& scenario, const std::string& policy,
                                     const Progress& progress = {});
Result<Simulation> simulate(const ScenarioFile& file, const SimulateOptions& options);

std::string to_text(const Simulation& simulation);
// `stalls`: with the curve of stalls over time, for plots.
std::string to_json(const Simulation& simulation, bool stalls = false);

}  // namespace foreload::sim
