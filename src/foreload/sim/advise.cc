// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/advise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/bytes.h"
#include "foreload/sim/scaled_down.h"
#include "foreload/sim/simulate.h"

namespace foreload::sim {
namespace {

using Json = nlohmann::ordered_json;

// Below this share nobody notices.
constexpr double kNoticeable = 0.03;
// A cheap change is good enough if it gains this share of what the best one gains.
constexpr double kGoodEnough = 0.5;
// In one simulation: some seconds.
constexpr uint64_t kMostReads = 500'000;
// A smaller job may come out differently. One of twice its size must come to nearly the same, or is
// tried itself, up to some minutes.
constexpr double kNearlyTheSame = 0.03;
constexpr uint64_t kMostReadsOfAll = 4'000'000;

struct Change {
  std::string part;
  std::string what;
  std::function<void(Scenario&)> apply;
};

Curve times(const Curve& curve, double factor) {
  std::vector<Curve::Point> points(curve.points().begin(), curve.points().end());
  for (Curve::Point& point : points) point.rate *= factor;
  return *Curve::create(std::move(points));
}

std::string rate_text(double rate) {
  return format_bytes(static_cast<uint64_t>(rate)) + "/s";
}

// Twice what a tier has; where it has less than a tenth of its part of the data set, all of that.
uint64_t more(uint64_t capacity, uint64_t part) {
  return capacity < part / 10 ? part : 2 * capacity;
}

std::vector<Change> changes_of(const Scenario& scenario, uint64_t dataset_bytes) {
  const ClusterSettings& cluster = scenario.cluster;
  const uint64_t part = dataset_bytes / cluster.nodes() + dataset_bytes % cluster.nodes();
  std::vector<Change> changes;
  if (cluster.preprocess)
    changes.push_back({"preprocessing",
                       fmt::format("{} preprocessing threads per rank instead of {}",
                                   2 * cluster.preprocess_threads, cluster.preprocess_threads),
                       [](Scenario& s) {
                         s.cluster.preprocess_threads *= 2;
                         s.cluster.preprocess_cpus *= 2;
                       }});
  changes.push_back({"staging",
                     fmt::format("{} of memory for batches ahead instead of {}",
                                 format_bytes(2 * cluster.staging), format_bytes(cluster.staging)),
                     [](Scenario& s) { s.cluster.staging *= 2; }});
  for (size_t i = cluster.tiers.size(); i-- > 0;) {
    const TierSettings& tier = cluster.tiers[i];
    const uint64_t to = more(tier.capacity, part);
    changes.push_back({tier.name,
                       fmt::format("{} of {} per node instead of {}", format_bytes(to), tier.name,
                                   format_bytes(tier.capacity)),
                       [i, to](Scenario& s) { s.cluster.tiers[i].capacity = to; }});
  }
  if (cluster.nodes() > 1)
    changes.push_back({"network",
                       fmt::format("a network of {} instead of {}", rate_text(2 * cluster.network),
                                   rate_text(cluster.network)),
                       [](Scenario& s) { s.cluster.network *= 2; }});
  const double source = cluster.source.curve.best_rate();
  changes.push_back(
      {"source",
       fmt::format("a source of {} instead of {}", rate_text(2 * source), rate_text(source)),
       [](Scenario& s) {
         s.cluster.source.curve = times(s.cluster.source.curve, 2);
         if (s.cluster.source_link) *s.cluster.source_link *= 2;
       }});
  changes.push_back({"ranks",
                     fmt::format("{} ranks instead of {}", 2 * cluster.ranks, cluster.ranks),
                     [](Scenario& s) { s.cluster.ranks *= 2; }});
  return changes;
}

double mean_after_first(const std::vector<double>& epochs) {
  if (epochs.size() < 2) return epochs.empty() ? 0 : epochs.front();
  return std::accumulate(epochs.begin() + 1, epochs.end(), 0.0) /
         static_cast<double>(epochs.size() - 1);
}

// What a job comes to, from a smaller one if it is large.
struct Estimate {
  PolicyResult result;  // of the smaller one
  uint64_t factor = 1;
  double seconds = 0;
};

Result<Estimate> estimate(const Scenario& scenario, const std::string& policy, uint64_t most_reads,
                          const Progress& progress) {
  FORELOAD_TRY(const ScaledDown small, scaled_down(scenario, most_reads));
  FORELOAD_TRY(PolicyResult result, simulate_policy(small.scenario, policy, progress));
  const double seconds = scaled_up_seconds(small, result.outcome);
  return Estimate{std::move(result), small.factor, seconds};
}

// So many reads that twice as many come to nearly the same.
Result<uint64_t> reads_that_tell(const Scenario& scenario, const std::string& policy) {
  uint64_t reads = kMostReads;
  FORELOAD_TRY(Estimate smaller, estimate(scenario, policy, reads, {}));
  while (smaller.factor > 1 && smaller.result.supported && reads < kMostReadsOfAll) {
    FORELOAD_TRY(Estimate larger, estimate(scenario, policy, 2 * reads, {}));
    if (std::abs(larger.seconds - smaller.seconds) <= kNearlyTheSame * larger.seconds) break;
    reads *= 2;
    smaller = std::move(larger);
  }
  return reads;
}

double gain(const Advice& advice, const Trial& trial) {
  return (advice.seconds - trial.seconds) / advice.seconds;
}

// Ranks cost most, and are named only where they help more than anything else.
void advise_ranks(Advice& advice, const Trial* best) {
  const auto ranks = std::ranges::find(advice.trials, "ranks", &Trial::part);
  if (ranks == advice.trials.end() || gain(advice, *ranks) < kNoticeable) return;
  if (best != nullptr && gain(advice, *ranks) <= gain(advice, *best)) return;
  advice.sentences.push_back(fmt::format("More ranks help most: {} saves {:.1f} s ({:.0f} %).",
                                         ranks->what, advice.seconds - ranks->seconds,
                                         100 * gain(advice, *ranks)));
}

void conclude(Advice& advice) {
  const double waiting = 1 - advice.lower_bound_seconds / advice.seconds;
  if (advice.factor > 1)
    advice.sentences.push_back(fmt::format(
        "The figures follow from simulations with 1/{} of the data set and of the caches.",
        advice.factor));
  advice.sentences.push_back(fmt::format(
      "Under {} the job takes {:.1f} s: the first epoch {:.1f} s, later ones {:.1f} s; computing "
      "alone would take {:.1f} s.",
      advice.policy, advice.seconds, advice.first_epoch_seconds, advice.later_epoch_seconds,
      advice.lower_bound_seconds));
  if (waiting < kNoticeable) {
    advice.limit = "compute";
    advice.sentences.push_back(
        fmt::format("It is limited by computing: data is waited for in {:.1f} % of the time. "
                    "Faster storage would change nothing; faster or more ranks would.",
                    100 * waiting));
    return;
  }
  const Trial* best = nullptr;
  for (const Trial& trial : advice.trials) {
    if (trial.part == "ranks") continue;
    if (best == nullptr || trial.seconds < best->seconds) best = &trial;
  }
  if (best == nullptr || gain(advice, *best) < kNoticeable) {
    advice.limit = "latency";
    advice.sentences.push_back(
        fmt::format("{:.1f} % of the time is spent waiting for data, but no single change of "
                    "storage, network, memory or threads helps: latency limits it.",
                    100 * waiting));
    advise_ranks(advice, nullptr);
    return;
  }
  advice.limit = best->part;
  advice.sentences.push_back(
      fmt::format("{:.1f} % of the time is spent waiting for data; what limits the job is the {}.",
                  100 * waiting, best->part));
  const auto cheapest = std::ranges::find_if(advice.trials, [&](const Trial& trial) {
    return trial.part != "ranks" && gain(advice, trial) >= kGoodEnough * gain(advice, *best);
  });
  advice.sentences.push_back(
      fmt::format("The cheapest change that helps: {} saves {:.1f} s ({:.0f} %).", cheapest->what,
                  advice.seconds - cheapest->seconds, 100 * gain(advice, *cheapest)));
  if (&*cheapest != best)
    advice.sentences.push_back(fmt::format("The one that helps most: {} saves {:.1f} s ({:.0f} %).",
                                           best->what, advice.seconds - best->seconds,
                                           100 * gain(advice, *best)));
  advise_ranks(advice, best);
}

}  // namespace

Result<Advice> advise(const Scenario& scenario, std::string policy, const Progress& progress) {
  if (policy.empty()) policy = "foreload";
  FORELOAD_TRY(const Sizes sizes, sizes_of(scenario.dataset));
  const std::vector<Change> changes = changes_of(scenario, sizes.total());
  constexpr uint64_t kParts = 1000;
  uint64_t done = 0;
  const Progress report = [&](uint64_t part, uint64_t whole) {
    const uint64_t now = whole == 0 ? 0 : part * kParts / whole;
    return !progress || progress(done + now, kParts * (changes.size() + 1));
  };
  FORELOAD_TRY(const uint64_t reads, reads_that_tell(scenario, policy));
  FORELOAD_TRY(const Estimate base, estimate(scenario, policy, reads, report));
  if (!base.result.supported)
    return fail(ErrorKind::invalid,
                fmt::format("policy {} cannot run this job: {}", policy, base.result.reason));
  Advice advice;
  advice.policy = policy;
  advice.factor = base.factor;
  advice.seconds = base.seconds;
  const auto factor = static_cast<double>(base.factor);
  const std::vector<double>& epochs = base.result.outcome.epoch_seconds;
  advice.lower_bound_seconds = factor * base.result.lower_bound_seconds *
                               static_cast<double>(scenario.training.epochs) /
                               static_cast<double>(epochs.size());
  advice.first_epoch_seconds = factor * epochs.front();
  advice.later_epoch_seconds = factor * mean_after_first(epochs);
  for (const Change& change : changes) {
    done += kParts;
    Scenario changed = scenario;
    change.apply(changed);
    // More ranks may be one too many for the policy or the data set; then there is no such trial.
    const auto trial = estimate(changed, policy, reads, report);
    if (!trial && trial.error().kind == ErrorKind::cancelled) return tl::unexpected(trial.error());
    if (trial && trial->result.supported)
      advice.trials.push_back({change.what, change.part, trial->seconds});
  }
  conclude(advice);
  return advice;
}

std::string to_text(const Advice& advice) {
  std::string text;
  for (const std::string& sentence : advice.sentences) text += sentence + "\n";
  text += "\nWhat was tried, the cheapest kind of change first:\n";
  for (const Trial& trial : advice.trials)
    text += fmt::format("  {:<50}{:>12.1f} s{:>8.1f} %\n", trial.what, trial.seconds,
                        -100 * gain(advice, trial));
  return text;
}

std::string to_json(const Advice& advice) {
  Json trials = Json::array();
  for (const Trial& trial : advice.trials)
    trials.push_back({{"part", trial.part},
                      {"what", trial.what},
                      {"seconds", trial.seconds},
                      {"gain", gain(advice, trial)}});
  return Json{{"policy", advice.policy},    {"scaled_down", advice.factor},
              {"seconds", advice.seconds},  {"lower_bound_seconds", advice.lower_bound_seconds},
              {"limit", advice.limit},      {"advice", advice.sentences},
              {"trials", std::move(trials)}}
      .dump(2);
}

}  // namespace foreload::sim
