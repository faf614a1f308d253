// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/simulate.h"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "foreload/sim/foreload_training.h"
#include "foreload/sim/rival.h"
#include "foreload/sim/training.h"
#include "foreload/sim/workload.h"

namespace foreload::sim {
namespace {

constexpr uint64_t kPartsPerRun = 1000;

// What all policies of one job share.
struct Prepared {
  Workload workload;
  double lower_bound_seconds = 0;
  uint64_t source_bytes_lower_bound = 0;
};

Result<Prepared> prepare(const Scenario& scenario) {
  FORELOAD_TRY(Workload workload, Workload::make(scenario));
  uint64_t capacity = 0;
  for (uint32_t tier = 0; tier < scenario.cluster.tiers.size(); ++tier)
    capacity += scenario.cluster.capacity(tier) * scenario.cluster.ranks;
  Prepared prepared{std::move(workload), 0, 0};
  prepared.source_bytes_lower_bound = prepared.workload.source_bytes_lower_bound(capacity);
  const auto rival = make_rival("lower_bound", scenario, prepared.workload);
  FORELOAD_TRY(const Outcome outcome, train(scenario, prepared.workload, *rival));
  prepared.lower_bound_seconds = outcome.seconds;
  return prepared;
}

Result<PolicyResult> run(const Scenario& scenario, const Prepared& prepared,
                         const std::string& policy, const Progress& progress) {
  PolicyResult result;
  result.policy = policy;
  result.lower_bound_seconds = prepared.lower_bound_seconds;
  result.source_bytes_lower_bound = prepared.source_bytes_lower_bound;
  for (const TierSettings& tier : scenario.cluster.tiers) result.tiers.push_back(tier.name);
  std::optional<std::string> refusal;
  if (policy == "foreload") {
    FORELOAD_TRY(result.outcome, train_foreload(scenario, prepared.workload, progress));
  } else {
    const auto rival = make_rival(policy, scenario, prepared.workload);
    refusal = rival->refuses();
    if (!refusal) {
      FORELOAD_TRY(result.outcome, train(scenario, prepared.workload, *rival, progress));
    }
    if (rival->needs_no_reads()) result.outcome.source_bytes = prepared.source_bytes_lower_bound;
  }
  if (refusal) {
    result.supported = false;
    result.reason = *refusal;
  }
  return result;
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names(rival_names().begin(), rival_names().end());
  names.emplace_back("foreload");
  return names;
}

Result<PolicyResult> simulate_policy(const Scenario& scenario, const std::string& policy,
                                     const Progress& progress) {
  FORELOAD_TRY(const Prepared prepared, prepare(scenario));
  return run(scenario, prepared, policy, progress);
}

Result<Simulation> simulate(const ScenarioFile& file, const SimulateOptions& options) {
  FORELOAD_TRY(const Scenario first, file.read());
  Simulation simulation;
  simulation.scenario = first.name;
  std::vector<Sweep> sweeps = first.sweeps;
  for (const Sweep& sweep : options.sweeps) {
    std::erase_if(sweeps, [&](const Sweep& other) { return other.key == sweep.key; });
    sweeps.push_back(sweep);
  }
  uint64_t combinations = 1;
  for (const Sweep& sweep : sweeps) combinations *= sweep.values.size();
  std::vector<std::string> policies = options.policies.empty() ? first.policies : options.policies;
  if (policies.empty()) policies = policy_names();

  const uint64_t parts = combinations * policies.size() * kPartsPerRun;
  uint64_t done = 0;
  const Progress progress = [&](uint64_t part, uint64_t whole) {
    const uint64_t now = whole == 0 ? 0 : part * kPartsPerRun / whole;
    return !options.progress || options.progress(done + now, parts);
  };
  for (uint64_t combination = 0; combination < combinations; ++combination) {
    ScenarioFile changed = file;
    std::vector<std::pair<std::string, std::string>> set;
    uint64_t rest = combination;
    for (const Sweep& sweep : sweeps) {
      const std::string& value = sweep.values[rest % sweep.values.size()];
      rest /= sweep.values.size();
      FORELOAD_CHECK(changed.set(sweep.key, value));
      set.emplace_back(sweep.key, value);
    }
    FORELOAD_TRY(const Scenario scenario, changed.read());
    FORELOAD_TRY(const Prepared prepared, prepare(scenario));
    for (const std::string& policy : policies) {
      FORELOAD_TRY(PolicyResult result, run(scenario, prepared, policy, progress));
      result.set = set;
      simulation.results.push_back(std::move(result));
      done += kPartsPerRun;
    }
  }
  return simulation;
}

}  // namespace foreload::sim
