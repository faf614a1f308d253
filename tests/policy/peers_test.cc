// SPDX-License-Identifier: Apache-2.0
//
// Ranks that act as one cache, on a virtual clock: what they read from the source, and what happens
// when some of them die.
#include <gtest/gtest.h>

#include "cluster.h"
#include "world.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

Job cluster_job(uint32_t ranks, uint64_t epochs, uint64_t memory_per_rank) {
  Job job = job_of(epochs, memory_per_rank);
  job.ranks = ranks;
  return job;
}

TEST(Peers, ReadTheSourceOnceIfTogetherTheyHoldEverything) {
  for (const bool in_step : {true, false}) {
    const auto plan = plan_of(cluster_job(4, 5, 2600), *Sizes::uniform(100, 100));
    ClusterSettings settings;
    settings.in_step = in_step;
    Cluster cluster(plan, settings);
    cluster.run();
    for (uint32_t rank = 0; rank < 4; ++rank) cluster.expect_lists(rank);
    EXPECT_EQ(cluster.source_reads(), 100u);
    for (const auto& rank : cluster.ranks_) EXPECT_EQ(rank->policy.totals().dead_peers, 0u);
  }
}

TEST(Peers, ReadWhatThePlanSaysIfTheyHoldAPart) {
  const auto plan = plan_of(cluster_job(4, 5, 1200), *Sizes::uniform(100, 100));
  ClusterSettings settings;
  settings.policy.window_bytes = 1024;
  Cluster cluster(plan, settings);
  cluster.run();
  for (uint32_t rank = 0; rank < 4; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(cluster.source_reads() * 100, plan->traffic().source_bytes());
}

// What the last batch leaves out is pushed by nobody: nobody may wait for it.
TEST(Peers, WaitForNothingThatIsLeftOut) {
  Job job = cluster_job(4, 5, 2600);
  job.batching = {7, true};
  const auto plan = plan_of(job, *Sizes::uniform(100, 100));
  Cluster cluster(plan, {});
  cluster.run();
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank]->longest_wait, seconds(1));
  }
}

TEST(Peers, PushNothingInTheLastEpoch) {
  const auto plan = plan_of(cluster_job(4, 1, 2600), *Sizes::uniform(100, 100));
  Cluster cluster(plan, {});
  cluster.run();
  EXPECT_EQ(cluster.pushes_, 0u);
}

TEST(Peers, WhatDisksHoldIsNotReadAgain) {
  Job job = cluster_job(2, 2, 0);
  job.tiers = {{{"memory", 0, 2}, {"disk", 1300, 1}}};
  for (uint64_t sample = 0; sample < 20; ++sample)
    job.held.push_back({sample, static_cast<uint32_t>(sample % 2), 1});
  const auto plan = plan_of(job, *Sizes::uniform(20, 100));
  Cluster cluster(plan, {});
  cluster.run();
  for (uint32_t rank = 0; rank < 2; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(cluster.source_reads(), 0u);
}

TEST(Peers, SurvivorsOfAKillGetTheirSamplesInTime) {
  const auto plan = plan_of(cluster_job(4, 5, 2600), *Sizes::uniform(100, 100));
  Cluster cluster(plan, {});
  cluster.at(milliseconds(70), [&] { cluster.kill(2); });
  cluster.run();
  for (const uint32_t rank : {0u, 1u, 3u}) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank]->longest_wait, seconds(12));
  }
  // What the dead one held is read again in every epoch at most: nobody has room for it.
  EXPECT_LE(cluster.source_reads(), 100u + 5 * 26);
}

TEST(Peers, SurvivorsWithRoomAdoptWhatTheDeadHeld) {
  const auto plan = plan_of(cluster_job(4, 6, 3800), *Sizes::uniform(100, 100));
  Cluster cluster(plan, {});
  cluster.at(milliseconds(70), [&] { cluster.kill(2); });
  cluster.run();
  for (const uint32_t rank : {0u, 1u, 3u}) cluster.expect_lists(rank);
  uint64_t owned = 0;
  for (uint64_t sample = 0; sample < 100; ++sample)
    if (plan->placement().owner(sample).rank == 2) ++owned;
  EXPECT_LE(cluster.source_reads(), 100 + owned + 3);  // once, and what was under way
}

TEST(Peers, AStoppedRankIsDeadAfterTheTimeout) {
  const auto plan = plan_of(cluster_job(3, 4, 4000), *Sizes::uniform(90, 100));
  Cluster cluster(plan, {});
  cluster.at(milliseconds(60), [&] { cluster.stop(1); });
  cluster.at(seconds(100), [&] { cluster.wake(1); });  // far too late
  cluster.run();
  for (uint32_t rank = 0; rank < 3; ++rank) cluster.expect_lists(rank);
  for (const uint32_t rank : {0u, 2u}) EXPECT_LT(cluster.ranks_[rank]->longest_wait, seconds(12));
}

TEST(Peers, ACutLinkIsNotTheEnd) {
  const auto plan = plan_of(cluster_job(3, 4, 4000), *Sizes::uniform(90, 100));
  Cluster cluster(plan, {});
  cluster.at(milliseconds(60), [&] { cluster.cut(0, 1); });
  cluster.run();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank]->longest_wait, seconds(12));
  }
}

// Whatever dies and whenever: who goes on gets exactly its samples, and in time.
void run_with_deaths(uint64_t seed) {
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937_64 random(seed);
  const auto ranks = static_cast<uint32_t>(2 + random() % 5);
  const uint64_t samples = 10 + random() % 100;
  std::vector<uint64_t> sizes(samples);
  for (auto& size : sizes) size = random() % 300;
  Job job = cluster_job(ranks, 1 + random() % 5, random() % (samples * 300 / ranks + 1));
  job.tiers[0][1].capacity = random() % (samples * 300 / ranks + 1);
  job.batching.batch_size = 1 + random() % 8;
  job.batching.drop_last = random() % 4 == 0;
  ClusterSettings settings;
  if (random() % 3 == 0) settings.refuse_share = 0.1;
  settings.seed = seed;
  settings.in_step = random() % 2 == 0;
  settings.policy.window_bytes = random() % 20'000;
  settings.policy.push_bytes = random() % 5000;
  settings.policy.serve_bytes = random() % 5000;
  settings.policy.decode = random() % 2 == 0;
  const auto plan = plan_of(job, *Sizes::of(sizes));
  Cluster cluster(plan, settings);
  std::set<uint32_t> gone;
  uint64_t mended = 0;
  const uint64_t deaths = random() % ranks;
  for (uint64_t i = 0; i < deaths; ++i) {
    const auto victim = static_cast<uint32_t>(random() % ranks);
    const RunTime when = milliseconds(random() % 300);
    switch (random() % 3) {
      case 0:
        gone.insert(victim);
        cluster.at(when, [&cluster, victim] { cluster.kill(victim); });
        break;
      case 1:
        gone.insert(victim);
        cluster.at(when, [&cluster, victim] { cluster.stop(victim); });
        break;
      default: {
        const auto other = static_cast<uint32_t>(random() % ranks);
        if (other == victim) break;
        cluster.at(when, [&cluster, victim, other] { cluster.cut(victim, other); });
        if (random() % 2 == 0) break;
        ++mended;
        cluster.at(when + milliseconds(random() % 500),
                   [&cluster, victim, other] { cluster.mend(victim, other); });
      }
    }
  }
  cluster.run();
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    if (gone.contains(rank)) continue;
    cluster.expect_lists(rank);
    // Every death may cost one timeout, every message that was lost the patience besides.
    EXPECT_LT(cluster.ranks_[rank]->longest_wait,
              seconds(12) * (1 + deaths) + seconds(31) * mended);
    if (deaths == 0) {
      EXPECT_EQ(cluster.ranks_[rank]->policy.totals().dead_peers, 0u);
    }
  }
}

// A block of seeds a test: a process each would take longer than the test.
class RandomDeaths : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomDeaths, SurvivorsGetTheirLists) {
  for (uint64_t i = 0; i < 50; ++i) run_with_deaths(GetParam() * 50 + i);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomDeaths, testing::Range(uint64_t{0}, uint64_t{10}));

TEST(PeersSoak, SurvivorsGetTheirLists) {
  for (uint64_t seed = 1000; seed < 100'000 && !testing::Test::HasFailure(); ++seed)
    run_with_deaths(seed);
}

}  // namespace
}  // namespace foreload
