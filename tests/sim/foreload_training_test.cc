// SPDX-License-Identifier: Apache-2.0
//
// foreload's own plan and policy in the simulator, alone and with peers.
#include "foreload/sim/foreload_training.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "foreload/sim/scaled_down.h"

#include "thesis.h"

namespace foreload::sim {
namespace {

// Reading everything once at the source's best rate, and computing everything.
double bound_with_source(const Scenario& job, const PolicyResult& result) {
  const double best =
      std::ranges::max(job.cluster.source.curve.points(), {}, &Curve::Point::rate).rate;
  const auto epochs = static_cast<double>(job.training.epochs);
  const double epoch = result.lower_bound_seconds / epochs;
  const double first = static_cast<double>(result.source_bytes_lower_bound) / best;
  return std::max(first, epoch) + epoch * (epochs - 1);
}

// Where time counts more may be read, so that the loop need not wait.
uint64_t least_traffic(Scenario job) {
  job.training.objective = Objective::traffic;
  return run_policy(job, "foreload").outcome.source_bytes;
}

TEST(ForeloadTraining, ReadsTheDataSetOnceWhereItFits) {
  const PolicyResult result = run_policy(small_scenario(1, 60'000'000, 0), "foreload");
  ASSERT_TRUE(result.supported) << result.reason;
  EXPECT_EQ(result.outcome.source_bytes, result.source_bytes_lower_bound);
  EXPECT_EQ(result.outcome.hits.source, 800u);
  EXPECT_EQ(result.outcome.hits.own[0], 2400u);
}

TEST(ForeloadTraining, UsesTheDiskForWhatMemoryCannotHold) {
  const PolicyResult result = run_policy(small_scenario(1, 10'000'000, 60'000'000), "foreload");
  EXPECT_EQ(result.outcome.source_bytes, result.source_bytes_lower_bound);
  EXPECT_GT(result.outcome.hits.own[1], result.outcome.hits.own[0]);
}

TEST(ForeloadTraining, StaysWithinOneSamplePerEpochOfTheBoundWhereItDoesNotFit) {
  const Scenario job = small_scenario(1, 10'000'000, 8'000'000);
  const PolicyResult result = run_policy(job, "foreload");
  const uint64_t slack = 2 * 4 * sizes_of(job.dataset)->largest();
  EXPECT_GE(result.outcome.source_bytes, result.source_bytes_lower_bound);
  EXPECT_LE(result.outcome.source_bytes, result.source_bytes_lower_bound + slack);
}

TEST(ForeloadTraining, IsTheSameAgain) {
  const Scenario job = small_scenario(1, 10'000'000, 8'000'000);
  EXPECT_EQ(run_policy(job, "foreload").outcome.seconds,
            run_policy(job, "foreload").outcome.seconds);
}

TEST(ForeloadTraining, SeveralRanksReadTheDataSetOnce) {
  const PolicyResult result = run_policy(small_scenario(4, 16'000'000, 0), "foreload");
  ASSERT_TRUE(result.supported) << result.reason;
  EXPECT_EQ(result.outcome.source_bytes, result.source_bytes_lower_bound);
  EXPECT_EQ(result.outcome.hits.source, 800u);
  EXPECT_GT(result.outcome.hits.peer, 0u);
  EXPECT_EQ(result.outcome.hits.own[0] + result.outcome.hits.own[1] + result.outcome.hits.peer,
            2400u);
}

TEST(ForeloadTraining, RanksOfANodeShareItsDevices) {
  Scenario job = small_scenario(4, 16'000'000, 0);
  job.training.compute = 1e9;
  job.cluster.preprocess.reset();
  job.training.objective = Objective::traffic;  // otherwise the source helps out
  job.cluster.tiers[0].read.curve = Curve::flat(50e6);
  const double apart = run_policy(job, "foreload").outcome.seconds;
  job.cluster.ranks_per_node = 4;
  job.cluster.tiers[0].capacity *= 4;
  EXPECT_GT(run_policy(job, "foreload").outcome.seconds, 1.5 * apart);
}

TEST(ForeloadTraining, MemoryOfBatchesIsFreshOnce) {
  Scenario job = small_scenario(1, 60'000'000, 0);
  job.training.compute = 1e12;
  job.cluster.source.curve = Curve::flat(1e12);
  job.cluster.preprocess = 1e6;
  job.cluster.preprocess_threads = 2;
  job.cluster.preprocess_cpus = 2;
  job.cluster.preprocessed = 100'000;
  const uint64_t batch =
      job.training.batch_size * (job.cluster.preprocessed + sizes_of(job.dataset)->mean());
  job.cluster.staging = batch * 4 * 4 / 3 + batch;  // three quarters are the window: four batches
  const auto before = run_policy(job, "foreload").outcome.epoch_seconds;
  job.cluster.fresh_cpu = 1e-6;
  const auto after = run_policy(job, "foreload").outcome.epoch_seconds;
  // Those four and the one that the loop has, done by two CPUs.
  EXPECT_NEAR(after[0] - before[0], 5e-6 * static_cast<double>(batch) / 2,
              0.5e-6 * static_cast<double>(batch));
  EXPECT_NEAR(after[2], before[2], 0.01 * before[2]);
}

// Any cluster: no slower than the published policy, no more from the source, and near the bound
// where everything fits.
TEST(ForeloadTrainingStatistics, IsNoWorseThanThePublishedPolicy) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 60; ++i) {
    const uint32_t ranks = i % 2 == 0 ? 1 : 1u << (1 + random() % 3);
    Scenario job =
        small_scenario(ranks, random() % 120'000'000 / ranks, random() % 120'000'000 / ranks);
    job.training.seed = random() % 1000;
    job.training.epochs = 2 + random() % 6;
    job.training.compute = 10e6 * static_cast<double>(1 + random() % 12);
    job.dataset.samples = 2000;
    job.cluster.source.curve =
        times_curve(job.cluster.source.curve, 0.3 + static_cast<double>(random() % 20) / 10);
    if (random() % 2 == 0) job.cluster.source.latency = {0.002, 0.5};
    if (random() % 3 == 0) job.cluster.tiers[1].write = Curve::flat(200e6);
    const PolicyResult ours = run_policy(job, "foreload");
    const PolicyResult theirs = run_policy(job, "nopfs");
    EXPECT_LE(ours.outcome.seconds, 1.001 * theirs.outcome.seconds) << i << ", ranks " << ranks;
    EXPECT_LE(least_traffic(job), theirs.outcome.source_bytes) << i << ", ranks " << ranks;
    const auto storage = static_cast<double>(
        ranks * (job.cluster.tiers[0].capacity + job.cluster.tiers[1].capacity));
    if (storage > 1.02 * static_cast<double>(sizes_of(job.dataset)->total())) {
      // Jobs of a second or two: the first batch, before which nothing overlaps, counts.
      EXPECT_LE(ours.outcome.seconds, 1.03 * bound_with_source(job, ours) + 0.05)
          << i << ", ranks " << ranks;
    }
  }
}

// Every scenario of this repository, a small one in place of a large one; bench/sim/compare.py runs
// them as they are.
TEST(ForeloadTrainingStatistics, IsNoWorseInTheScenariosOfThisRepository) {
  const auto folder = scenario_path("").parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem();
    SCOPED_TRACE(name);
    const Scenario whole = scenario(name);
    if (whole.cluster.ranks > 100) continue;
    const auto small = scaled_down(whole, 100'000);
    ASSERT_TRUE(small);
    const Scenario& job = small->scenario;
    const PolicyResult ours = run_policy(job, "foreload");
    const PolicyResult theirs = run_policy(job, "nopfs");
    // Its loop gets whole batches, that of the published policy begins with the first sample.
    EXPECT_LE(ours.outcome.seconds, 1.001 * theirs.outcome.seconds);
    EXPECT_LE(least_traffic(job), theirs.outcome.source_bytes);
    uint64_t storage = 0;
    for (uint32_t tier = 0; tier < job.cluster.tiers.size(); ++tier)
      storage += job.cluster.ranks * job.cluster.capacity(tier);
    // In a small one the first batches, before which nothing overlaps, count too much.
    if (small->factor > 1 || storage < sizes_of(job.dataset)->total()) continue;
    EXPECT_LE(ours.outcome.seconds, 1.03 * bound_with_source(job, ours));
  }
}

}  // namespace
}  // namespace foreload::sim
