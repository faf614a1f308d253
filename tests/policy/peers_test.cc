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

// Second copies too: whoever has one asks nobody.
TEST(Peers, ReplicasOnDisksAreFoundAgain) {
  Job job = cluster_job(2, 3, 0);
  job.tiers = {{{"memory", 0, 2}, {"disk", 2000, 1}}};
  for (uint64_t sample = 0; sample < 20; ++sample)
    for (uint32_t rank = 0; rank < 2; ++rank) job.held.push_back({sample, rank, 1});
  const auto plan = plan_of(job, *Sizes::uniform(20, 100));
  Cluster cluster(plan, {});
  cluster.run();
  for (uint32_t rank = 0; rank < 2; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(cluster.source_reads(), 0u);
  EXPECT_EQ(cluster.requests_, 0u);
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

// Samples of a dead rank that others have replicas of are live copies: the source is left alone.
TEST(Peers, ReplicasStandInForTheDead) {
  const auto plan = plan_of(cluster_job(3, 6, 10'000), *Sizes::uniform(90, 100));
  Cluster cluster(plan, narrow());
  cluster.once([&] { return cluster.ranks_[1]->lists.size() == 4; }, [&] { cluster.kill(1); });
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
  EXPECT_LE(cluster.source_reads(), 90 + alone + 2);
  EXPECT_GT(cluster.ranks_[0]->policy.totals().adopted, 0u);
}

TEST(Peers, KeepTheReplicasThatThePlanWants) {
  const auto plan = plan_of(cluster_job(2, 8, 7000), *Sizes::uniform(100, 100));
  Cluster cluster(plan, narrow());
  cluster.run();
  EXPECT_EQ(cluster.source_reads(), 100u);
  uint64_t replicas = 0;
  for (uint32_t rank = 0; rank < 2; ++rank) {
    const PolicyTotals totals = cluster.ranks_[rank]->policy.totals();
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
    ClusterSettings settings = narrow();
    settings.policy.eviction = rule.name;
    Cluster cluster(plan, settings);
    uint64_t before = 0;
    cluster.once([&] { return cluster.ranks_[2]->lists.size() == 6; },
                 [&] {
                   before = cluster.source_reads();
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
      gave_way += cluster.ranks_[rank]->policy.totals().gave_way;
    }
    EXPECT_LE(cluster.source_reads(), 100 + owned + 3);
    EXPECT_GT(gave_way, 0u);
  }
}

TEST(Peers, WithoutEqualRoomTheRoomyAdopt) {
  Job job = cluster_job(4, 6, 0);
  job.tiers.clear();
  for (const uint64_t memory : {2600u, 2600u, 2600u, 5400u})
    job.tiers.push_back({{"memory", memory, 1}});
  const auto plan = plan_of(job, *Sizes::uniform(100, 100));
  Cluster cluster(plan, {});
  cluster.at(milliseconds(70), [&] { cluster.kill(1); });
  cluster.run();
  for (const uint32_t rank : {0u, 2u, 3u}) cluster.expect_lists(rank);
  uint64_t owned = 0;
  for (uint64_t sample = 0; sample < 100; ++sample)
    if (plan->placement().owner(sample).rank == 1) ++owned;
  EXPECT_LE(cluster.source_reads(), 100 + owned + 6);
}

TEST(Peers, ReadMemoryOfTheirHostInPlace) {
  const auto plan = plan_of(cluster_job(4, 5, 2500), *Sizes::uniform(100, 100));
  ClusterSettings settings = narrow();
  settings.ranks_per_host = 2;
  Cluster cluster(plan, settings);
  cluster.run();
  for (uint32_t rank = 0; rank < 4; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(cluster.source_reads(), 100u);
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
  ClusterSettings settings = narrow();
  settings.ranks_per_host = 2;
  settings.in_step = false;
  Cluster cluster(plan, settings);
  cluster.once([&] { return cluster.ranks_[0]->lists.size() == 3; }, [&] { cluster.stop(1); });
  cluster.run();
  cluster.expect_lists(0);
  EXPECT_EQ(cluster.ranks_[0]->policy.totals().dead_peers, 0u);
  EXPECT_LT(cluster.ranks_[0]->longest_wait, seconds(1));
}

// A rank that asked for a lot and is stopped takes nothing of it: the others are served meanwhile.
TEST(Peers, WhoTakesNothingKeepsNobodyWaiting) {
  Job job = cluster_job(4, 4, 0);
  job.tiers.clear();  // one has everything
  for (const uint64_t memory : {10'000u, 0u, 0u, 0u}) job.tiers.push_back({{"memory", memory, 1}});
  const auto plan = plan_of(job, *Sizes::uniform(100, 100));
  ClusterSettings settings;
  settings.in_step = false;
  settings.policy.serve_bytes = 300;
  settings.policy.window_bytes = 2000;
  settings.policy.hedge_share = 0;
  Cluster cluster(plan, settings);
  auto asks = [&] {
    const auto& reads = cluster.ranks_[2]->reads;
    return cluster.ranks_[0]->bytes[0] == 10'000 && reads.size() >= 4 &&
           std::all_of(reads.begin(), reads.end(), [](const auto& read) {
             return read.second.from.kind == Origin::Kind::peer;
           });
  };
  cluster.once(asks, [&] { cluster.stop(2); });
  cluster.run();
  EXPECT_TRUE(cluster.ranks_[2]->stopped);
  for (const uint32_t rank : {0u, 1u, 3u}) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank]->longest_wait, seconds(1));
  }
  // And it is found out, although it owes nothing but to take what it asked for.
  EXPECT_EQ(cluster.ranks_[0]->policy.totals().dead_peers, 1u);
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
  settings.ranks_per_host = static_cast<uint32_t>(1 + random() % 3);
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
