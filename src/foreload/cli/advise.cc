// SPDX-License-Identifier: Apache-2.0
//
// foreload advise: what limits a job, and what the cheapest change would gain.
#include "foreload/sim/advise.h"

#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "foreload/base/progress.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/verbs.h"

namespace foreload::cli {
namespace {

struct AdviseOptions {
  std::string scenario;
  std::string policy;
  bool json = false;
};

Result<int> run_advise(const AdviseOptions& options) {
  FORELOAD_TRY(const sim::ScenarioFile file, sim::ScenarioFile::load(options.scenario));
  FORELOAD_TRY(const sim::Scenario scenario, file.read());
  std::optional<ProgressBar> bar(std::in_place, "simulating");
  FORELOAD_TRY(const sim::Advice advice, sim::advise(scenario, options.policy, bar->callback()));
  bar.reset();
  fmt::print("{}", options.json ? to_json(advice) + "\n" : to_text(advice));
  return 0;
}

}  // namespace

Run add_advise(CLI::App& app) {
  auto options = std::make_shared<AdviseOptions>();
  CLI::App* verb =
      app.add_subcommand("advise", "Say what limits a job and what to buy, from simulations");
  expands_home(verb->add_option("scenario", options->scenario, "a JSON file, see docs/simulator.md")
                   ->required());
  verb->add_option("--policy", options->policy, "under this policy (foreload)");
  verb->add_flag("--json", options->json, "print one JSON object");
  return [options] { return run_advise(*options); };
}

}  // namespace foreload::cli
