// SPDX-License-Identifier: Apache-2.0
//
// One fault a test: what ranks do when one of them is killed, stopped, slow or wrong about the
// others. Whoever goes on gets exactly its samples, and waits for a dead rank once at most.
#include <gtest/gtest.h>

#include "several_ranks.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kSamples = 100;

std::shared_ptr<const Plan> plan_of_ranks(uint32_t ranks, uint64_t epochs, uint64_t memory) {
  Job job = job_of(epochs, memory);
  job.ranks = ranks;
  return plan_of(job, *Sizes::uniform(kSamples, 100));
}

// A rank has begun to deliver this epoch, counted from 1.
std::function<bool()> in_epoch(const SeveralRanks& cluster, uint32_t rank, uint64_t epoch) {
  return [&cluster, rank, epoch] { return cluster.ranks_[rank].epochs >= epoch; };
}

uint64_t owned_by(const Plan& plan, uint32_t rank) {
  uint64_t owned = 0;
  for (uint64_t sample = 0; sample < kSamples; ++sample)
    if (plan.placement().owner(sample).rank == rank) ++owned;
  return owned;
}

void expect_good(const SeveralRanks& cluster, std::initializer_list<uint32_t> ranks,
                 RunTime longest_wait) {
  for (const uint32_t rank : ranks) {
    cluster.expect_lists(rank);
    EXPECT_LT(cluster.ranks_[rank].longest_wait, longest_wait) << "rank " << rank;
  }
}

uint64_t dead_for(const SeveralRanks& cluster, uint32_t rank) {
  return cluster.totals(rank).dead_peers;
}

TEST(PeerFault, KilledInTheFirstEpoch) {
  const auto plan = plan_of_ranks(4, 5, 3800);
  SeveralRanks cluster(plan, {});
  cluster.at(milliseconds(15), [&] { cluster.kill(2); });
  cluster.run();
  expect_good(cluster, {0, 1, 3}, seconds(12));
}

// At 150 % of the data set the source is read once more for what the dead one held.
TEST(PeerFault, KilledInTheSecondEpochCostsTheSourceOnce) {
  const auto plan = plan_of_ranks(4, 5, 3750);
  SeveralRanks cluster(plan, narrow());
  cluster.once(in_epoch(cluster, 2, 2), [&] { cluster.kill(2); });
  cluster.run();
  expect_good(cluster, {0, 1, 3}, seconds(12));
  // And what was under way.
  EXPECT_LE(cluster.source_reads_, kSamples + owned_by(*plan, 2) + 3);
}

TEST(PeerFault, StoppedAndContinuedLate) {
  const auto plan = plan_of_ranks(3, 4, 4000);
  SeveralRanks cluster(plan, narrow());
  cluster.once(in_epoch(cluster, 1, 2), [&] { cluster.stop(1); });
  cluster.at(seconds(60), [&] { cluster.wake(1); });
  cluster.run();
  expect_good(cluster, {0, 2}, seconds(12));
  cluster.expect_lists(1);
}

// It lived all the time, and goes on with the source when nobody talks to it any more.
TEST(PeerFault, SlowAndWronglyDeclaredDead) {
  const auto plan = plan_of_ranks(3, 6, 3400);
  SeveralSettings settings = narrow();
  settings.in_step = false;
  settings.step = 0.3;
  SeveralRanks cluster(plan, settings);
  cluster.once(in_epoch(cluster, 1, 2), [&] {
    cluster.stop(1);
    cluster.at(cluster.now() + seconds(12), [&] { cluster.wake(1); });
  });
  cluster.run();
  for (uint32_t rank = 0; rank < 3; ++rank) cluster.expect_lists(rank);
  EXPECT_EQ(dead_for(cluster, 0), 1u);
  EXPECT_EQ(dead_for(cluster, 2), 1u);
}

TEST(PeerFault, LinkDownFromTheStart) {
  const auto plan = plan_of_ranks(3, 4, 4000);
  SeveralRanks cluster(plan, {});
  cluster.cut(0, 1);
  cluster.run();
  expect_good(cluster, {0, 1, 2}, seconds(12));
  EXPECT_EQ(dead_for(cluster, 2), 0u);
}

// Who is slow is not dead: it answers when it is asked for a sign of life.
TEST(PeerFault, SlowReplies) {
  const auto plan = plan_of_ranks(3, 3, 3400);
  SeveralRanks cluster(plan, narrow());
  cluster.slow_down(1, 3);
  cluster.run();
  expect_good(cluster, {0, 1, 2}, seconds(5));
  for (const uint32_t rank : {0u, 2u}) EXPECT_EQ(dead_for(cluster, rank), 0u);
  EXPECT_LE(cluster.source_reads_, kSamples + 3);  // hedges are bounded
}

TEST(PeerFault, OwnerDiesWhileAPushIsUnderWay) {
  const auto plan = plan_of_ranks(4, 4, 3800);
  SeveralRanks cluster(plan, {});
  bool died = false;
  cluster.on_push_ = [&](uint32_t, uint32_t to) {
    if (died || to != 1) return;
    died = true;
    cluster.at(cluster.now(), [&] { cluster.kill(1); });
  };
  cluster.run();
  EXPECT_TRUE(died);
  expect_good(cluster, {0, 2, 3}, seconds(12));
}

TEST(PeerFault, PusherDiesWhileItsPushIsUnderWay) {
  const auto plan = plan_of_ranks(4, 4, 3800);
  SeveralRanks cluster(plan, {});
  bool died = false;
  cluster.on_push_ = [&](uint32_t from, uint32_t) {
    if (died || from != 1) return;
    died = true;
    cluster.at(cluster.now(), [&] { cluster.kill(1); });
  };
  cluster.run();
  EXPECT_TRUE(died);
  expect_good(cluster, {0, 2, 3}, seconds(12));
}

TEST(PeerFault, ASecondDeathDuringRecovery) {
  const auto plan = plan_of_ranks(5, 6, 4000);
  SeveralRanks cluster(plan, narrow());
  cluster.once(in_epoch(cluster, 2, 2), [&] { cluster.kill(2); });
  // The first is known to be dead, and what it held is being adopted.
  cluster.once([&] { return cluster.totals(0).adopted > 0; }, [&] { cluster.kill(4); });
  cluster.run();
  EXPECT_TRUE(cluster.driver(4).life().dead());
  expect_good(cluster, {0, 1, 3}, 2 * seconds(12));  // once for each
  // What the second one owned or had adopted is read again, once.
  EXPECT_LE(cluster.source_reads_, kSamples + 2 * owned_by(*plan, 2) + owned_by(*plan, 4) + 5);
}

// Two think each other dead, the third talks to both.
TEST(PeerFault, DisagreementAboutWhoIsDead) {
  const auto plan = plan_of_ranks(3, 6, 4000);
  SeveralRanks cluster(plan, narrow());
  cluster.once(in_epoch(cluster, 0, 2), [&] { cluster.cut(0, 1); });
  cluster.run();
  expect_good(cluster, {0, 1, 2}, seconds(12));
  EXPECT_EQ(dead_for(cluster, 0), 1u);
  EXPECT_EQ(dead_for(cluster, 1), 1u);
  EXPECT_EQ(dead_for(cluster, 2), 0u);
}

// A copy that is gone when it is to be sent: the asker is told, and reads the source.
TEST(PeerFault, OwnerEvictsWhileAPeerReads) {
  for (const uint32_t ranks_per_host : {1u, 3u}) {
    const auto plan = plan_of_ranks(3, 4, 3400);
    SeveralSettings settings = narrow();
    settings.ranks_per_host = ranks_per_host;
    SeveralRanks cluster(plan, settings);
    uint64_t evicted = 0;
    std::function<void()> evict = [&] {
      for (uint32_t rank = 0; rank < 3; ++rank) {
        uint64_t sample = 0;
        while (sample < kSamples && !cluster.driver(rank).tiers().holds(0, sample)) ++sample;
        if (sample == kSamples) continue;
        cluster.driver(rank).tiers().drop(0, sample);
        ++evicted;
      }
      if (cluster.now() < milliseconds(120)) cluster.at(cluster.now() + milliseconds(3), evict);
    };
    cluster.at(milliseconds(40), evict);
    cluster.run();
    EXPECT_GT(evicted, 10u);
    expect_good(cluster, {0, 1, 2}, seconds(1));
    // In the last epoch nobody keeps it for the two samples that are read twice, to pad.
    EXPECT_LE(cluster.source_reads_, kSamples + evicted + 2);
  }
}

// Cut off from all others at once: what one of the dead should have adopted is not asked for there.
TEST(PeerFault, CutOffFromSeveralAtOnce) {
  for (const uint32_t others : {2u, 3u, 4u}) {
    const auto plan = plan_of_ranks(1 + others, 5, 4000);
    SeveralRanks cluster(plan, narrow());
    cluster.once(in_epoch(cluster, 0, 2), [&] {
      for (uint32_t other = 1; other <= others; ++other) cluster.cut(0, other);
    });
    cluster.run();
    expect_good(cluster, {0, 1, 2}, seconds(11));
    EXPECT_EQ(dead_for(cluster, 0), others);
  }
}

// The heir has died too, a moment before it is asked: the sample does not wait for both.
TEST(PeerFault, TheHeirIsSilentToo) {
  const auto plan = plan_of_ranks(3, 5, 4000);
  SeveralSettings settings = narrow();
  settings.in_step = false;
  SeveralRanks cluster(plan, settings);
  cluster.once(in_epoch(cluster, 0, 2), [&] {
    cluster.kill(1);
    // Nothing tells that the first is dead; the transport notices it late.
    cluster.at(cluster.now() + milliseconds(9500), [&] {
      cluster.kill(2);
      cluster.driver(0).tell(event::PeerDown{1});
    });
  });
  cluster.run();
  expect_good(cluster, {0}, seconds(12));
  EXPECT_EQ(dead_for(cluster, 0), 2u);
}

// Whoever should push a sample and cannot read it says so: its owner, and who asked the owner, wait
// for nothing.
TEST(PeerFault, ASampleThatItsFirstReaderCannotRead) {
  const auto plan = plan_of_ranks(3, 3, 4000);
  SeveralSettings settings = narrow();
  settings.policy.skip_bad_samples = true;
  SeveralRanks cluster(plan, settings);
  for (uint64_t sample = 0; sample < kSamples; sample += 17) cluster.unreadable_.insert(sample);
  cluster.run();
  for (uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(cluster.ranks_[rank].epochs, 3u);
    EXPECT_LT(cluster.ranks_[rank].longest_wait, seconds(1)) << "rank " << rank;
  }
}

TEST(PeerFault, OneThatNeverSaysAnything) {
  const auto plan = plan_of_ranks(4, 4, 3800);
  SeveralRanks cluster(plan, {});
  cluster.kill(3);
  cluster.run();
  expect_good(cluster, {0, 1, 2}, seconds(12));
}

}  // namespace
}  // namespace foreload
