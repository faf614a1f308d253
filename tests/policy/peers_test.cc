// SPDX-License-Identifier: Apache-2.0
//
// Ranks that act as one cache, on a virtual clock: what they read from the source, and what happens
// when some of them die.
#include <gtest/gtest.h>

#include "several_ranks.h"

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
    SeveralSettings settings;
    settings.in_step = in_step;
    SeveralRanks cluster(plan, settings);
    cluster.run();
    for (uint32_t rank = 0; rank < 4; ++rank) cluster.expect_lists(rank);
    EXPECT_EQ(cluster.source_reads_, 100u);
    for (uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(cluster.totals(rank).dead_peers, 0u);
  }
}

TEST(Peers, ReadWhatThePlanSaysIfTheyHoldAPart) {
  const auto plan = plan_of(cluster_job(4, 5, 1200), *Sizes::uniform(100, 100));
  SeveralSettings settings;
  settings.policy.window_bytes = 1024;
  SeveralRanks cluster(plan, settings);
  cluster.run();
  for (uint32_t rank = 0; rank < 4; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(cluster.source_reads_ * 100, plan->traffic().source_bytes());
}

// What the last batch leaves out is pushed by nobody: nobody may wait for it.
TEST(Peers, WaitForNothingThatIsLeftOut) {
  Job job = cluster_job(4, 5, 2600);
  job.batching = {7, true};
  const auto plan = plan_of(job, *Sizes::uniform(100, 100));
  SeveralRanks cluster(plan, {});
  cluster.run();
  for (uint32_t rank = 0; rank < 4; ++rank) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank].longest_wait, seconds(1));
  }
}

TEST(Peers, PushNothingInTheLastEpoch) {
  const auto plan = plan_of(cluster_job(4, 1, 2600), *Sizes::uniform(100, 100));
  SeveralRanks cluster(plan, {});
  cluster.run();
  EXPECT_EQ(cluster.pushes_, 0u);
}

TEST(Peers, WhatDisksHoldIsNotReadAgain) {
  Job job = cluster_job(2, 2, 0);
  job.tiers = {{{"memory", 0, 2}, {"disk", 1300, 1}}};
  for (uint64_t sample = 0; sample < 20; ++sample)
    job.held.push_back({sample, static_cast<uint32_t>(sample % 2), 1});
  const auto plan = plan_of(job, *Sizes::uniform(20, 100));
  SeveralRanks cluster(plan, {});
  cluster.run();
  for (uint32_t rank = 0; rank < 2; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(cluster.source_reads_, 0u);
}

// Second copies too: whoever has one asks nobody.
TEST(Peers, ReplicasOnDisksAreFoundAgain) {
  Job job = cluster_job(2, 3, 0);
  job.tiers = {{{"memory", 0, 2}, {"disk", 2000, 1}}};
  for (uint64_t sample = 0; sample < 20; ++sample)
    for (uint32_t rank = 0; rank < 2; ++rank) job.held.push_back({sample, rank, 1});
  const auto plan = plan_of(job, *Sizes::uniform(20, 100));
  SeveralRanks cluster(plan, {});
  cluster.run();
  for (uint32_t rank = 0; rank < 2; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(cluster.source_reads_, 0u);
  EXPECT_EQ(cluster.requests_, 0u);
}

TEST(Peers, SurvivorsOfAKillGetTheirSamplesInTime) {
  const auto plan = plan_of(cluster_job(4, 5, 2600), *Sizes::uniform(100, 100));
  SeveralRanks cluster(plan, {});
  cluster.at(milliseconds(70), [&] { cluster.kill(2); });
  cluster.run();
  for (const uint32_t rank : {0u, 1u, 3u}) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank].longest_wait, seconds(12));
  }
  // What the dead one held is read again in every epoch at most: nobody has room for it.
  EXPECT_LE(cluster.source_reads_, 100u + 5 * 26);
}

TEST(Peers, SurvivorsWithRoomAdoptWhatTheDeadHeld) {
  const auto plan = plan_of(cluster_job(4, 6, 3800), *Sizes::uniform(100, 100));
  SeveralRanks cluster(plan, {});
  cluster.at(milliseconds(70), [&] { cluster.kill(2); });
  cluster.run();
  for (const uint32_t rank : {0u, 1u, 3u}) cluster.expect_lists(rank);
  uint64_t owned = 0;
  for (uint64_t sample = 0; sample < 100; ++sample)
    if (plan->placement().owner(sample).rank == 2) ++owned;
  EXPECT_LE(cluster.source_reads_, 100 + owned + 3);  // once, and what was under way
}

TEST(Peers, AStoppedRankIsDeadAfterTheTimeout) {
  const auto plan = plan_of(cluster_job(3, 4, 4000), *Sizes::uniform(90, 100));
  SeveralRanks cluster(plan, {});
  cluster.at(milliseconds(60), [&] { cluster.stop(1); });
  cluster.at(seconds(100), [&] { cluster.wake(1); });  // far too late
  cluster.run();
  for (uint32_t rank = 0; rank < 3; ++rank) cluster.expect_lists(rank);
  for (const uint32_t rank : {0u, 2u}) EXPECT_LT(cluster.ranks_[rank].longest_wait, seconds(12));
}

TEST(Peers, ACutLinkIsNotTheEnd) {
  const auto plan = plan_of(cluster_job(3, 4, 4000), *Sizes::uniform(90, 100));
  SeveralRanks cluster(plan, {});
  cluster.at(milliseconds(60), [&] { cluster.cut(0, 1); });
  cluster.run();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank].longest_wait, seconds(12));
  }
}

// Samples of a dead rank that others have replicas of are live copies: the source is left alone.
TEST(Peers, ReplicasStandInForTheDead) {
  const auto plan = plan_of(cluster_job(3, 6, 10'000), *Sizes::uniform(90, 100));
  SeveralRanks cluster(plan, narrow());
  cluster.once([&] { return cluster.ranks_[1].epochs == 4; }, [&] { cluster.kill(1); });
  cluster.run();
  for (const uint32_t rank : {0u, 2u}) cluster.expect_lists(rank);
  uint64_t alone = 0;  // owned by the dead, and nobody else had read it yet
  for (uint64_t sample = 0; sample < 90; ++sample) {
    if (plan->placement().owner(sample).rank != 1) continue;
    bool another = false;
    for (uint32_t epoch = 0; epoch < 3; ++epoch)
      another = another || plan->table()->reader(epoch, sample) != 1;
    if (!another) ++alone;
  }
  EXPECT_LE(cluster.source_reads_, 90 + alone + 2);
  EXPECT_GT(cluster.totals(0).adopted, 0u);
}

TEST(Peers, KeepTheReplicasThatThePlanWants) {
  const auto plan = plan_of(cluster_job(2, 8, 7000), *Sizes::uniform(100, 100));
  SeveralRanks cluster(plan, narrow());
  cluster.run();
  EXPECT_EQ(cluster.source_reads_, 100u);
  uint64_t replicas = 0;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const PolicyTotals totals = cluster.totals(rank);
    EXPECT_GT(totals.replicas, 10u);
    EXPECT_EQ(totals.gave_way, 0u);
    replicas += totals.replicas;
  }
  // Each is asked for once, and what is not kept whenever it is read.
  EXPECT_LE(cluster.requests_, plan->traffic().peer[0].reads + replicas);
}

// Adopted samples go before replicas, and the source is read once more for them, not every epoch.
TEST(Peers, ReplicasGiveWayToWhatTheDeadHeldByEveryRule) {
  const auto plan = plan_of(cluster_job(4, 12, 3800), *Sizes::uniform(100, 100));
  for (const EvictionRule& rule : eviction_rules()) {
    SCOPED_TRACE(rule.name);
    SeveralSettings settings = narrow();
    settings.policy.eviction = rule.name;
    SeveralRanks cluster(plan, settings);
    uint64_t before = 0;
    cluster.once([&] { return cluster.ranks_[2].epochs == 6; },
                 [&] {
                   before = cluster.source_reads_;
                   cluster.kill(2);
                 });
    cluster.run();
    EXPECT_EQ(before, 100u);
    uint64_t owned = 0;
    uint64_t gave_way = 0;
    for (uint64_t sample = 0; sample < 100; ++sample)
      if (plan->placement().owner(sample).rank == 2) ++owned;
    for (const uint32_t rank : {0u, 1u, 3u}) {
      cluster.expect_lists(rank);
      gave_way += cluster.totals(rank).gave_way;
    }
    EXPECT_LE(cluster.source_reads_, 100 + owned + 3);
    EXPECT_GT(gave_way, 0u);
  }
}

TEST(Peers, WithoutEqualRoomTheRoomyAdopt) {
  Job job = cluster_job(4, 6, 0);
  job.tiers.clear();
  for (const uint64_t memory : {2600u, 2600u, 2600u, 5400u})
    job.tiers.push_back({{"memory", memory, 1}});
  const auto plan = plan_of(job, *Sizes::uniform(100, 100));
  SeveralRanks cluster(plan, {});
  cluster.at(milliseconds(70), [&] { cluster.kill(1); });
  cluster.run();
  for (const uint32_t rank : {0u, 2u, 3u}) cluster.expect_lists(rank);
  uint64_t owned = 0;
  for (uint64_t sample = 0; sample < 100; ++sample)
    if (plan->placement().owner(sample).rank == 1) ++owned;
  EXPECT_LE(cluster.source_reads_, 100 + owned + 6);
}

TEST(Peers, ReadMemoryOfTheirHostInPlace) {
  const auto plan = plan_of(cluster_job(4, 5, 2500), *Sizes::uniform(100, 100));
  SeveralSettings settings = narrow();
  settings.ranks_per_host = 2;
  SeveralRanks cluster(plan, settings);
  cluster.run();
  for (uint32_t rank = 0; rank < 4; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(cluster.source_reads_, 100u);
  uint64_t of_neighbours = 0;
  uint64_t of_others = 0;
  for (uint32_t epoch = 1; epoch < 5; ++epoch) {
    for (uint64_t sample = 0; sample < 100; ++sample) {
      const uint32_t owner = plan->placement().owner(sample).rank;
      const uint32_t reader = plan->table()->reader(epoch, sample);
      if (owner != reader) ++(owner / 2 == reader / 2 ? of_neighbours : of_others);
    }
  }
  // What is not there yet at the border of the first two epochs is asked for.
  EXPECT_LE(cluster.read_in_place_, of_neighbours);
  EXPECT_GE(cluster.read_in_place_, of_neighbours - 5);
  EXPECT_EQ(cluster.requests_, of_others + of_neighbours - cluster.read_in_place_);
}

// Nobody is asked for what lies in memory on the same host, so nobody need answer.
TEST(Peers, AStoppedNeighbourIsStillRead) {
  const auto plan = plan_of(cluster_job(2, 6, 5200), *Sizes::uniform(100, 100));
  SeveralSettings settings = narrow();
  settings.ranks_per_host = 2;
  settings.in_step = false;
  SeveralRanks cluster(plan, settings);
  cluster.once([&] { return cluster.ranks_[0].epochs == 3; }, [&] { cluster.stop(1); });
  cluster.run();
  cluster.expect_lists(0);
  EXPECT_EQ(cluster.totals(0).dead_peers, 0u);
  EXPECT_LT(cluster.ranks_[0].longest_wait, seconds(1));
}

// A rank that asked for a lot and is stopped takes nothing of it: the others are served meanwhile.
TEST(Peers, WhoTakesNothingKeepsNobodyWaiting) {
  Job job = cluster_job(4, 4, 0);
  job.tiers.clear();  // one has everything
  for (const uint64_t memory : {10'000u, 0u, 0u, 0u}) job.tiers.push_back({{"memory", memory, 1}});
  const auto plan = plan_of(job, *Sizes::uniform(100, 100));
  SeveralSettings settings;
  settings.in_step = false;
  settings.policy.serve_bytes = 300;
  settings.policy.window_bytes = 2000;
  settings.policy.hedge_share = 0;
  SeveralRanks cluster(plan, settings);
  auto asks = [&] {
    const auto& reads = cluster.ranks_[2].conduct.reads();
    return cluster.driver(0).tiers().bytes(0) == 10'000 && reads.size() >= 4 &&
           std::all_of(reads.begin(), reads.end(), [](const auto& read) {
             return read.second.from.kind == Origin::Kind::peer;
           });
  };
  cluster.once(asks, [&] { cluster.stop(2); });
  cluster.run();
  EXPECT_TRUE(cluster.driver(2).life().stopped());
  for (const uint32_t rank : {0u, 1u, 3u}) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank].longest_wait, seconds(1));
  }
  // And it is found out, although it owes nothing but to take what it asked for.
  EXPECT_EQ(cluster.totals(0).dead_peers, 1u);
}

}  // namespace
}  // namespace foreload
