// SPDX-License-Identifier: Apache-2.0
//
// foreload plan: what a job will read, keep and wait for, before it runs.
#include "foreload/plan/plan.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/paths.h"
#include "foreload/base/progress.h"
#include "foreload/cli/arguments.h"
#include "foreload/cli/external.h"
#include "foreload/cli/setting_options.h"
#include "foreload/cli/verbs.h"
#include "foreload/formats/format.h"
#include "foreload/loader/settling.h"
#include "foreload/plan/summary.h"

namespace foreload::cli {
namespace {

struct PlanArguments {
  std::string dataset;
  std::string extensions;
  std::string save_index;
  std::string samples;
  std::string mean_size;
  std::string size_sigma;
  std::string memory = "0";
  std::string disk = "0";
  std::string placement = "cover";
  std::string rate;
  std::string threads = "0";
  std::string plot;
  bool json = false;
};

Result<Sizes> dataset_sizes(const PlanArguments& options) {
  ListingOptions listing;
  if (!options.extensions.empty()) {
    FORELOAD_TRY(listing.extensions, parse_extensions(options.extensions));
  }
  ProgressBar bar("reading sizes");
  listing.progress = bar.callback();
  FORELOAD_TRY(const DatasetIndex index, open_dataset({options.dataset}, listing));
  if (!options.save_index.empty()) FORELOAD_CHECK(index.save(options.save_index));
  return Sizes::of(index.sample_sizes());
}

Result<Sizes> synthetic_sizes(const PlanArguments& options) {
  FORELOAD_TRY(const uint64_t samples, parse_count("--samples", options.samples, 1));
  if (options.mean_size.empty())
    return fail(ErrorKind::invalid, "--samples needs --mean-size, for example --mean-size 110KiB");
  FORELOAD_TRY(const uint64_t mean, parse_size("--mean-size", options.mean_size));
  if (options.size_sigma.empty()) return Sizes::uniform(samples, mean);
  FORELOAD_TRY(const uint64_t sigma, parse_size("--size-sigma", options.size_sigma));
  // The data set does not change with the seed of the shuffle.
  return Sizes::normal(samples, mean, sigma, 0);
}

Result<Sizes> sizes_of(const PlanArguments& options) {
  if (options.dataset.empty() == options.samples.empty())
    return fail(ErrorKind::invalid,
                "give either --dataset PATH or --samples F with --mean-size SIZE");
  return options.dataset.empty() ? synthetic_sizes(options) : dataset_sizes(options);
}

Result<Job> planned_job(const PlanArguments& options, LoaderSettings settings) {
  FORELOAD_TRY(settings.memory, parse_size("--memory", options.memory));
  FORELOAD_TRY(const uint64_t disk, parse_size("--disk", options.disk));
  settings.disks = {{{}, disk}};
  share_budgets(settings);
  Job job = job_of(settings);
  FORELOAD_TRY(job.placement, parse_placement_kind(options.placement));
  job.tiers = {{{"memory", settings.memory, 2}, {"disk", settings.disks[0].bytes, 1}}};
  return job;
}

Result<int> run_plan(const PlanArguments& options, const SettingOptions& given) {
  if (!options.plot.empty()) FORELOAD_CHECK(check_output_file("--plot", options.plot));
  if (!options.save_index.empty())
    FORELOAD_CHECK(check_output_file("--save-index", options.save_index));
  FORELOAD_TRY(LoaderSettings settings, given.parse());
  FORELOAD_TRY(const Job job, planned_job(options, std::move(settings)));
  SummaryOptions summary;
  if (!options.rate.empty()) {
    FORELOAD_TRY(summary.rate, parse_rate("--rate", options.rate));
  }
  foreload::PlanOptions planning;
  FORELOAD_TRY(const uint64_t threads, parse_count("--threads", options.threads, 0, 1024));
  planning.threads = static_cast<unsigned>(threads);
  FORELOAD_TRY(Sizes sizes, sizes_of(options));

  const auto begin = std::chrono::steady_clock::now();
  std::optional<ProgressBar> bar(std::in_place, "planning");
  planning.progress = bar->callback();
  FORELOAD_TRY(const Plan plan, Plan::make(job, std::move(sizes), planning));
  bar.reset();
  summary.plan_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  const std::string json = to_json(plan, summary);
  fmt::print("{}", options.json ? json + "\n" : to_text(plan, summary));
  if (options.plot.empty()) return 0;
  std::fflush(stdout);
  return run_external("plot", {"-", "-o", options.plot}, &json);
}

}  // namespace

Run add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanArguments>();
  CLI::App* verb = app.add_subcommand(
      "plan", "Say what a training job will read, keep and fetch from the source");
  expands_home(verb->add_option(
      "--dataset", options->dataset,
      "a folder (class folders of files, or files alone), a file list, or a saved index"));
  verb->add_option("--extensions", options->extensions,
                   "files that count, like .jpg,.png, or any (those of images)");
  expands_home(verb->add_option("--save-index", options->save_index,
                                "write the index of the data set here"));
  verb->add_option("--samples", options->samples, "instead of --dataset: how many samples");
  verb->add_option("--mean-size", options->mean_size, "and their mean size, like 110KiB");
  verb->add_option("--size-sigma", options->size_sigma, "and its standard deviation (0)");
  const auto given = std::make_shared<SettingOptions>(
      *verb, std::vector<std::string_view>{"ranks", "ranks_per_node", "epochs", "batch_size",
                                           "drop_last", "seed", "order", "pad", "per_rank"});
  verb->add_option("--memory", options->memory, "memory that each node may use, like 2GiB (0)");
  verb->add_option("--disk", options->disk, "disk that each node may use, like 10GiB (0)");
  verb->add_option("--placement", options->placement, "cover, independent or computed (cover)");
  verb->add_option("--rate", options->rate,
                   "samples per second that a rank consumes: shows what each place must deliver");
  verb->add_option("--threads", options->threads, "threads to plan with, 0: all CPUs (0)");
  expands_home(verb->add_option("--plot", options->plot,
                                "draw coverage and access counts to a PNG or SVG file"));
  verb->add_flag("--json", options->json, "print one JSON object");
  return [options, given] { return run_plan(*options, *given); };
}

}  // namespace foreload::cli
