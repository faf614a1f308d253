// SPDX-License-Identifier: Apache-2.0
//
// foreload simulate: how long a job would take on a cluster, policy by policy, before anybody pays
// for either.
#include "foreload/sim/simulate.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/paths.h"
#include "foreload/base/progress.h"
#include "foreload/base/text.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/external.h"
#include "foreload/cli/verbs.h"

namespace foreload::cli {
namespace {

struct SimulateOptions {
  std::string scenario;
  std::vector<std::string> policies;
  std::vector<std::string> sets;
  std::vector<std::string> sweeps;
  std::string plot;
  bool json = false;
};

// "key=value".
Result<std::pair<std::string, std::string>> split(std::string_view option,
                                                  const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return fail(
        ErrorKind::invalid,
        fmt::format("{} is '{}': write it like cluster.tiers.memory.capacity=20GB", option, text));
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<int> run_simulate(const SimulateOptions& options) {
  if (!options.plot.empty()) FORELOAD_CHECK(check_output_file("--plot", options.plot));
  FORELOAD_TRY(sim::ScenarioFile file, sim::ScenarioFile::load(options.scenario));
  for (const std::string& text : options.sets) {
    FORELOAD_TRY(const auto change, split("--set", text));
    FORELOAD_CHECK(file.set(change.first, change.second));
  }
  sim::SimulateOptions simulating;
  simulating.policies = options.policies;
  for (const std::string& policy : options.policies)
    FORELOAD_CHECK(check_choice("--policy", policy, sim::policy_names()));
  for (const std::string& text : options.sweeps) {
    FORELOAD_TRY(const auto change, split("--sweep", text));
    sim::Sweep sweep{change.first, {}};
    size_t begin = 0;
    while (begin <= change.second.size()) {
      const size_t end = std::min(change.second.find(',', begin), change.second.size());
      sweep.values.push_back(change.second.substr(begin, end - begin));
      begin = end + 1;
    }
    simulating.sweeps.push_back(std::move(sweep));
  }
  std::optional<ProgressBar> bar(std::in_place, "simulating");
  simulating.progress = bar->callback();
  FORELOAD_TRY(const sim::Simulation simulation, sim::simulate(file, simulating));
  bar.reset();
  fmt::print("{}", options.json ? to_json(simulation) + "\n" : to_text(simulation));
  if (options.plot.empty()) return 0;
  std::fflush(stdout);
  const std::string json = to_json(simulation, /*stalls=*/true);
  return run_external("plot", {"-", "-o", options.plot}, &json);
}

}  // namespace

Run add_simulate(CLI::App& app) {
  auto options = std::make_shared<SimulateOptions>();
  CLI::App* verb = app.add_subcommand(
      "simulate", "Say how long a job would take on a cluster, policy by policy");
  expands_home(verb->add_option("scenario", options->scenario, "a JSON file, see docs/simulator.md")
                   ->required());
  verb->add_option("--policy", options->policies, "policies to try (the scenario's, or all)")
      ->delimiter(',');
  verb->add_option("--set", options->sets, "change a value, like training.epochs=3")
      ->allow_extra_args(false);
  verb->add_option("--sweep", options->sweeps, "try several, like cluster.ranks=1,2,4")
      ->allow_extra_args(false);
  expands_home(verb->add_option("--plot", options->plot,
                                "draw times, stalls and sweeps to a PNG or SVG file"));
  verb->add_flag("--json", options->json, "print one JSON object");
  return [options] { return run_simulate(*options); };
}

}  // namespace foreload::cli
