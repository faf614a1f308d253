// SPDX-License-Identifier: Apache-2.0
//
// Training under rivals, on clusters small enough to reckon by hand.
#include "foreload/sim/training.h"

#include <cmath>

#include <gtest/gtest.h>

#include "thesis.h"

namespace foreload::sim {
namespace {

// One rank, ten samples of 100 bytes in batches of five, everything at round rates.
Scenario by_hand() {
  Scenario job;
  job.cluster.staging = 10'000;
  job.cluster.staging_threads = 1;
  job.cluster.preprocess = 50;
  job.cluster.preprocess_threads = 1;
  job.cluster.source.curve = Curve::flat(25);
  job.dataset.samples = 10;
  job.dataset.mean = 100;
  job.training.batch_size = 5;
  job.training.compute = 100;
  return job;
}

TEST(Training, LowerBoundComputesAlone) {
  EXPECT_DOUBLE_EQ(run_policy(by_hand(), "lower_bound").outcome.seconds, 10);
}

TEST(Training, NaiveReadsPreprocessesAndComputesInTurn) {
  const PolicyResult result = run_policy(by_hand(), "naive");
  EXPECT_DOUBLE_EQ(result.outcome.seconds, 10 * (4 + 2 + 1));
  EXPECT_DOUBLE_EQ(result.outcome.stall_seconds, 60);
  EXPECT_EQ(result.outcome.hits.source, 10u);
  EXPECT_EQ(result.outcome.source_bytes, 1000u);
}

TEST(Training, StagingPoolReadsTheNextBatchWhileThisOneIsComputed) {
  // 5 reads of 4 s and the last sample's 2 s of preprocessing, twice; then the last batch.
  EXPECT_DOUBLE_EQ(run_policy(by_hand(), "staging_pool").outcome.seconds, 22 + 22 + 5);
}

TEST(Training, StagingForOneBatchDoesNotOverlap) {
  Scenario job = by_hand();
  job.cluster.staging = 500;
  EXPECT_DOUBLE_EQ(run_policy(job, "staging_pool").outcome.seconds, 2 * (22 + 5));
}

TEST(Training, WithoutStagingEverythingIsNaive) {
  Scenario job = by_hand();
  job.cluster.staging = 0;
  EXPECT_DOUBLE_EQ(run_policy(job, "staging_pool").outcome.seconds, 70);
}

TEST(Training, ExchangeCountsAfterEveryStep) {
  Scenario job = by_hand();
  job.training.exchange = 0.5;
  EXPECT_DOUBLE_EQ(run_policy(job, "lower_bound").outcome.seconds, 11);
}

TEST(Training, StepsWaitForTheSlowestRank) {
  Scenario job = small_scenario(4, 0, 0);
  const double even = run_policy(job, "lower_bound").outcome.seconds;
  job.training.straggler_share = 0.5;
  job.training.straggler_factor = 3;
  const double with_stragglers = run_policy(job, "lower_bound").outcome.seconds;
  EXPECT_GT(with_stragglers, 2.5 * even);
  EXPECT_LT(with_stragglers, 3.5 * even);
  job.training.straggler_share = 0;
  job.training.jitter = 0.3;
  EXPECT_GT(run_policy(job, "lower_bound").outcome.seconds, 1.1 * even);
}

TEST(Training, KeepsAPartialBatchUnlessItIsDropped) {
  Scenario job = by_hand();
  job.dataset.samples = 13;
  job.training.drop_last = false;
  EXPECT_DOUBLE_EQ(run_policy(job, "lower_bound").outcome.seconds, 13);
  EXPECT_EQ(run_policy(job, "staging_pool").outcome.hits.source, 13u);
  job.training.drop_last = true;
  EXPECT_DOUBLE_EQ(run_policy(job, "lower_bound").outcome.seconds, 10);
}

TEST(Training, CountsEpochsAndStalls) {
  Scenario job = by_hand();
  job.training.epochs = 3;
  const Outcome outcome = run_policy(job, "naive").outcome;
  ASSERT_EQ(outcome.epoch_seconds.size(), 3u);
  for (const double seconds : outcome.epoch_seconds) EXPECT_DOUBLE_EQ(seconds, 70);
  ASSERT_FALSE(outcome.stalls.empty());
  EXPECT_DOUBLE_EQ(outcome.stalls.back().end, 210);
}

TEST(Training, StopsWhenProgressSaysSo) {
  Scenario job = small_scenario(4, 0, 0);
  job.dataset.samples = 20'000;
  const auto result =
      simulate_policy(job, "staging_pool", [](uint64_t, uint64_t) { return false; });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::cancelled);
}

// What every rival must keep to, whatever the cluster.
class EveryRival : public testing::TestWithParam<std::string> {};

TEST_P(EveryRival, GivesEveryRankAllItsBatches) {
  for (const uint32_t ranks : {1u, 3u, 8u}) {
    for (const uint64_t memory : {0, 3'000'000, 50'000'000}) {
      Scenario job = small_scenario(ranks, memory, memory);
      const PolicyResult result = run_policy(job, GetParam());
      if (!result.supported) continue;
      const Hits& hits = result.outcome.hits;
      const uint64_t reads = 800 / ranks / 10 * 10 * ranks * 4;
      if (GetParam() != "lower_bound") {
        EXPECT_EQ(hits.own[0] + hits.own[1] + hits.peer + hits.source, reads);
      }
      // Which rank trains on what may change how much the slowest one has to compute.
      EXPECT_GE(result.outcome.seconds, 0.9 * result.lower_bound_seconds);
      EXPECT_EQ(result.outcome.epoch_seconds.size(), 4u);
    }
  }
}

TEST_P(EveryRival, IsTheSameAgain) {
  const Scenario job = small_scenario(4, 3'000'000, 3'000'000);
  const PolicyResult first = run_policy(job, GetParam());
  const PolicyResult second = run_policy(job, GetParam());
  EXPECT_EQ(first.outcome.seconds, second.outcome.seconds);
  EXPECT_EQ(first.outcome.source_bytes, second.outcome.source_bytes);
}

TEST_P(EveryRival, ReadsNoLessThanTheBoundWhereItKeepsTheData) {
  // These train on fewer samples than the job has.
  if (GetParam() == "deepio_opportunistic" || GetParam() == "parallel_staging") return;
  const PolicyResult result = run_policy(small_scenario(4, 3'000'000, 3'000'000), GetParam());
  if (!result.supported) return;
  EXPECT_GE(result.outcome.source_bytes, result.source_bytes_lower_bound);
}

INSTANTIATE_TEST_SUITE_P(Rivals, EveryRival,
                         testing::Values("lower_bound", "naive", "staging_pool", "deepio_ordered",
                                         "deepio_opportunistic", "parallel_staging",
                                         "lbann_dynamic", "lbann_preloading", "locality_aware",
                                         "nopfs"),
                         [](const auto& name) { return name.param; });

}  // namespace
}  // namespace foreload::sim
