// SPDX-License-Identifier: Apache-2.0
//
// When a read would end on each path, and what a policy does with that.
#include "foreload/policy/outlook.h"

#include <chrono>

#include <gtest/gtest.h>

#include "alone.h"
#include "one_rank.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;

TEST(Throughput, CountsTheTimeInWhichSomethingIsUnderWay) {
  Throughput flow;
  for (int i = 0; i < 20; ++i) {
    flow.begin(milliseconds(100 * i));
    flow.end(milliseconds(100 * i + 10), 5);
  }
  EXPECT_TRUE(flow.known());
  EXPECT_DOUBLE_EQ(flow.seconds_for_one(milliseconds(5000)), 0.002);
  EXPECT_DOUBLE_EQ(flow.crowd(), 1);
}

PolicySettings with_profile() {
  PolicySettings settings;
  settings.objective = Objective::time;
  settings.speeds.source = {1000, 0.01};
  settings.speeds.tiers = {{}, {100, 0.5}};
  return settings;
}

TEST(Outlook, BeginsWithTheProfile) {
  Alone parts(plan_of(job_of(1, 0, 2000), *Sizes::uniform(20, 100)), with_profile());
  const Outlook& outlook = parts.paths.outlook();
  EXPECT_DOUBLE_EQ(outlook.seconds(Outlook::kSourceWay, 1), 0.1);
  EXPECT_DOUBLE_EQ(outlook.seconds(outlook.way(tier_origin(1), 0), 1), 1);
}

TEST(Outlook, WhoeverLinesUpWaitsForTheOthers) {
  Alone parts(plan_of(job_of(1, 0, 2000), *Sizes::uniform(20, 100)), with_profile());
  Outlook& outlook = parts.paths.outlook();
  outlook.line_up(Outlook::kSourceWay);
  outlook.begin(Outlook::kSourceWay);
  EXPECT_DOUBLE_EQ(outlook.seconds(Outlook::kSourceWay, 1), 0.3);
}

// The disk holds everything and is ten times as slow as the source.
uint64_t reads_beside_the_disk(Objective objective) {
  PolicySettings settings = with_profile();
  settings.objective = objective;
  const auto plan = plan_of(job_of(1, 0, 2000), *Sizes::uniform(20, 100));
  std::vector<Held> held;
  for (uint64_t sample = 0; sample < 20; ++sample) held.push_back({sample, 0, 1});
  OneRank world(plan, settings, held);
  world.run();
  EXPECT_EQ(world.lists_.at(0), reading_list(*plan, 0));
  EXPECT_EQ(world.totals().off_priority_bytes, world.source_bytes_);
  EXPECT_EQ(world.totals().off_priority_microseconds > 0, world.totals().off_priority > 0);
  return world.totals().off_priority;
}

TEST(Choice, TheSourceHelpsWhereTheLoopWouldWaitForADisk) {
  EXPECT_GT(reads_beside_the_disk(Objective::time), 0u);
}

TEST(Choice, ForLeastTrafficItDoesNot) {
  EXPECT_EQ(reads_beside_the_disk(Objective::traffic), 0u);
}

// Twenty samples of a disk that is as fast as the source, and a loop that takes so much of each
// round for itself: how many wait for the source.
uint64_t left_to_the_source(milliseconds takes) {
  PolicySettings settings = with_profile();
  settings.speeds.tiers[1] = settings.speeds.source;
  Alone parts(plan_of(job_of(1, 0, 2000), *Sizes::uniform(20, 100)), settings);
  for (int round = 1; round <= 20; ++round) {
    parts.desk.now = milliseconds(100 * round);
    parts.demand.consumed(parts.desk.now - takes);
  }
  std::vector<uint64_t> samples(20);
  const uint64_t batch = parts.window.open(0, samples, 2000);
  for (uint32_t i = 0; i < 20; ++i) parts.choice.line_up_for(tier_origin(1), {batch, i});
  return parts.paths.waiting(kSource);
}

TEST(Choice, ForALoopThatComputesBothPathsAreUsed) {
  EXPECT_EQ(left_to_the_source(milliseconds(20)), 10u);
}

// Reading as fast as possible read half of everything from the source again.
TEST(Choice, ForALoopThatComputesNothingACopyAsFastAsTheSourceIsTaken) {
  EXPECT_EQ(left_to_the_source(milliseconds(0)), 0u);
}

}  // namespace
}  // namespace foreload
