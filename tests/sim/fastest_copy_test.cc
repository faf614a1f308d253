// SPDX-License-Identifier: Apache-2.0
//
// The smallest jobs in which a rule about copies, memory or disks costs time: four ranks whose
// memory holds the data set, and one thing of their cluster that is poor.
#include <gtest/gtest.h>

#include "thesis.h"

namespace foreload::sim {
namespace {

// A source of 100 MB/s for each rank, and a loop that could take 150.
Scenario four_ranks() {
  Scenario job;
  job.name = "four ranks";
  job.cluster.ranks = 4;
  job.cluster.source.curve = *Curve::create({{1, 50e6}, {16, 400e6}});
  job.cluster.network = 1e9;
  job.cluster.staging = 128'000'000;
  job.cluster.preprocess = 100e6;
  job.cluster.preprocess_threads = 4;
  job.cluster.tiers.push_back({.name = "memory", .capacity = 1'000'000'000});
  job.cluster.tiers[0].read.curve = Curve::flat(10e9);
  job.dataset.samples = 20'000;
  job.dataset.mean = 200'000;
  job.training.objective = Objective::time;
  job.training.epochs = 5;
  job.training.batch_size = 32;
  job.training.compute = 150e6;
  return job;
}

void expect_no_slower(const Scenario& job) {
  const PolicyResult ours = run_policy(job, "foreload");
  for (const char* policy : {"nopfs", "staging_pool"})
    EXPECT_LE(ours.outcome.seconds, 1.01 * run_policy(job, policy).outcome.seconds) << policy;
}

TEST(FastestCopy, PeersBehindASlowNetworkAreNotInsistedOn) {
  Scenario job = four_ranks();
  job.cluster.network = 30e6;
  expect_no_slower(job);
}

TEST(FastestCopy, TwoBatchesOfStagingSuffice) {
  Scenario job = four_ranks();
  job.cluster.staging = 16'000'000;  // of 6.4 MB each
  expect_no_slower(job);
}

// Reading and computing took turns.
TEST(FastestCopy, LessThanTwoBatchesOfStagingCostNothing) {
  Scenario job = four_ranks();
  job.cluster.staging = 5'000'000;
  expect_no_slower(job);
}

// The second epoch asked peers for what was still on its way to them, and waited: 1.9 times as long
// as reading the source alone.
TEST(FastestCopy, PeersThatAreStillBeingSentTheFirstEpochAreOvertaken) {
  Scenario job = four_ranks();
  job.cluster.ranks_per_node = 2;
  job.cluster.tiers[0].capacity = 28'000'000;
  job.cluster.source.curve = *Curve::create({{1, 711e6}, {4, 1506e6}});
  job.cluster.source.latency = {0.0002, 0};
  job.cluster.network = 32.6e6;
  job.cluster.staging = 8'000'000;
  job.cluster.preprocess.reset();
  job.dataset.samples = 1436;
  job.dataset.mean = 34'000;
  job.training.batch_size = 8;
  job.training.compute = 232e6;
  expect_no_slower(job);
}

Scenario with_disk(double rate, double latency) {
  Scenario job = four_ranks();
  job.cluster.tiers[0].capacity = 500'000'000;
  job.cluster.tiers.push_back({.name = "disk", .capacity = 1'000'000'000});
  job.cluster.tiers[1].read.curve = Curve::flat(rate);
  job.cluster.tiers[1].read.latency = {latency, 0};
  return job;
}

TEST(FastestCopy, ADiskSlowerThanTheSourceHoldsNobodyUp) {
  expect_no_slower(with_disk(40e6, 0));
}

TEST(FastestCopy, ADiskThatCrawlsHoldsNobodyUp) {
  expect_no_slower(with_disk(5e6, 0.01));
}

// Ranks that turn to the source together keep to what it serves best.
TEST(FastestCopy, SixtyFourRanksDoNotSlowTheSourceDown) {
  Scenario job = four_ranks();
  job.cluster.ranks = 64;
  job.cluster.tiers[0].capacity = 64'000'000;
  job.cluster.source.curve = *Curve::create({{1, 50e6}, {64, 3.2e9}, {128, 1e9}});
  job.cluster.network = 20e6;
  job.training.batch_size = 16;
  job.training.epochs = 3;
  expect_no_slower(job);
}

}  // namespace
}  // namespace foreload::sim
