// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/window.h"

#include <gtest/gtest.h>

#include "alone.h"

namespace foreload {
namespace {

const std::vector<uint64_t> kTwoSamples{3, 5};

TEST(BatchWindow, DeliversInOrder) {
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)));
  const uint64_t first = parts.window.open(0, kTwoSamples, 200);
  const uint64_t second = parts.window.open(0, kTwoSamples, 200);
  for (uint32_t i = 0; i < 2; ++i) parts.window.filled({second, i});
  parts.window.deliver();
  EXPECT_TRUE(parts.take<action::Deliver>().empty());
  for (uint32_t i = 0; i < 2; ++i) parts.window.filled({first, i});
  parts.window.deliver();
  EXPECT_EQ(parts.take<action::Deliver>().size(), 2u);
  parts.window.consumed(first);
  EXPECT_EQ(parts.window.open_bytes(), 200u);
}

TEST(BatchWindow, HasRoomForOneBatchWhateverItsSize) {
  PolicySettings settings;
  settings.window_bytes = 300;
  settings.ahead_bytes = 0;
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)), settings);
  EXPECT_TRUE(parts.window.has_room(1000, 2, 1000));
  parts.window.open(0, kTwoSamples, 200);
  EXPECT_TRUE(parts.window.has_room(100, 2, 0));
  EXPECT_FALSE(parts.window.has_room(100, 2, 1));
}

// Reading and computing took turns where memory had room for less than two batches.
TEST(BatchWindow, WhereTimeIsSavedTheNextIsFilledWhileTheLoopHasOne) {
  PolicySettings settings;
  settings.objective = Objective::time;
  settings.window_bytes = 300;
  settings.ahead_bytes = 0;
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)), settings);
  const uint64_t batch = parts.window.open(0, kTwoSamples, 200);
  EXPECT_FALSE(parts.window.has_room(200, 2, 0));
  for (uint32_t i = 0; i < 2; ++i) parts.window.filled({batch, i});
  parts.window.deliver();
  EXPECT_TRUE(parts.window.has_room(200, 2, 100));
  parts.window.open(0, kTwoSamples, 200);
  EXPECT_FALSE(parts.window.has_room(200, 2, 0));
}

TEST(BatchWindow, TheNextGoodSampleStandsInForABadOne) {
  PolicySettings settings;
  settings.skip_bad_samples = true;
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)), settings);
  const uint64_t batch = parts.window.open(0, kTwoSamples, 200);
  parts.window.mark_bad({batch, 1}, ReadEnd::permanent, 1, RunTime(0));
  EXPECT_EQ(parts.take<action::Skip>().size(), 1u);
  parts.window.filled({batch, 0});
  parts.window.deliver();
  const auto substitutes = parts.take<action::Substitute>();
  ASSERT_EQ(substitutes.size(), 1u);
  EXPECT_EQ(substitutes[0].from.index, 0u);
  EXPECT_EQ(substitutes[0].to.index, 1u);
}

TEST(BatchWindow, KeepsWhoWaitsForASampleInOrder) {
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)));
  EXPECT_EQ(parts.window.first_waiter(3), nullptr);
  for (uint32_t i = 0; i < 3; ++i) parts.window.wait_for(3, {0, i});
  parts.window.drop_first_waiter(3);
  EXPECT_EQ(*parts.window.first_waiter(3), (BatchPlace{0, 1}));
  EXPECT_EQ(parts.window.take_waiters(3), (std::vector<BatchPlace>{{0, 1}, {0, 2}}));
  EXPECT_TRUE(parts.window.take_waiters(3).empty());
}

TEST(BatchWindow, ASeekClosesAllAndNumbersGoOn) {
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)));
  const uint64_t closed = parts.window.open(0, kTwoSamples, 200);
  parts.window.close_all();
  EXPECT_EQ(parts.take<action::CloseBatch>().size(), 1u);
  parts.window.decoded({{closed, 0}, true});  // too late
  const uint64_t next = parts.window.open(0, kTwoSamples, 200);
  EXPECT_EQ(next, closed + 1);
  EXPECT_TRUE(parts.window.is_next({next, 0}));
}

}  // namespace
}  // namespace foreload
