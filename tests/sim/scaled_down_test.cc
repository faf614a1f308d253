// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/scaled_down.h"

#include <gtest/gtest.h>

#include "thesis.h"

namespace foreload::sim {
namespace {

TEST(ScaledDown, LeavesASmallJobAlone) {
  const Scenario job = small_scenario(2, 10'000'000, 0);
  const auto small = scaled_down(job, 1'000'000);
  ASSERT_TRUE(small);
  EXPECT_EQ(small->factor, 1u);
  EXPECT_EQ(small->epochs_left, 0u);
  EXPECT_EQ(small->scenario.dataset.samples, job.dataset.samples);
}

TEST(ScaledDown, KeepsShareOfCachesAndSomeSteps) {
  Scenario job = small_scenario(4, 10'000'000, 20'000'000);
  job.dataset.samples = 200'000;
  job.training.epochs = 30;
  const auto small = scaled_down(job, 10'000);
  ASSERT_TRUE(small);
  EXPECT_GT(small->factor, 10u);
  EXPECT_EQ(small->epochs_left, 26u);
  EXPECT_EQ(small->scenario.dataset.samples, 200'000 / small->factor);
  EXPECT_EQ(small->scenario.cluster.tiers[1].capacity, 20'000'000 / small->factor);
  EXPECT_GE(small->scenario.dataset.samples, 48u * 4 * job.training.batch_size);
}

TEST(ScaledDown, KeepsRoomForBatchesWithWhatBecomesOfThem) {
  Scenario job = small_scenario(1, 10'000'000, 0);
  job.dataset.samples = 200'000;
  job.cluster.preprocessed = 600'000;
  job.cluster.staging = uint64_t{1} << 30;
  const auto small = scaled_down(job, 10'000);
  ASSERT_TRUE(small);
  ASSERT_GT(small->factor, 10u);
  EXPECT_GE(small->scenario.cluster.staging, 8 * job.training.batch_size * 600'000);
}

TEST(ScaledDownStatistics, PredictsTheWholeJob) {
  for (const uint32_t ranks : {1u, 4u}) {
    for (const uint64_t memory : {20'000'000u, 200'000'000u, 900'000'000u}) {
      Scenario job = small_scenario(ranks, memory / ranks, 0);
      job.dataset.samples = 16'000;
      job.training.epochs = 8;
      const auto small = scaled_down(job, 16'000);
      ASSERT_TRUE(small);
      ASSERT_GT(small->factor, 2u);
      const double whole = run_policy(job, "foreload").outcome.seconds;
      const double scaled =
          scaled_up_seconds(*small, run_policy(small->scenario, "foreload").outcome);
      EXPECT_NEAR(scaled / whole, 1, 0.03) << ranks << " ranks, " << memory;
    }
  }
}

}  // namespace
}  // namespace foreload::sim
