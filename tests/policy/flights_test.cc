// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/flights.h"

#include <gtest/gtest.h>

#include "alone.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;

TEST(Paths, GiveTheFirstInLineAsFarAsThereIsRoom) {
  PolicySettings settings = among_peers();
  settings.source_limiter = {1, 1, 1};
  Alone parts(plan_of_peers(3), settings);
  EXPECT_FALSE(parts.paths.ready(kSource));
  parts.paths.line_up(kSource, {0, 0});
  parts.paths.line_up(kSource, {0, 1});
  parts.paths.go_first({0, 2});
  EXPECT_EQ(parts.paths.waiting(kSource), 3u);
  EXPECT_EQ(parts.paths.take(kSource), (BatchPlace{0, 2}));
  parts.paths.limiter(kSource).start(RunTime(0), true);
  EXPECT_FALSE(parts.paths.ready(kSource));
  EXPECT_EQ(parts.paths.take_all(kSource), (std::vector<BatchPlace>{{0, 0}, {0, 1}}));
}

TEST(Paths, KnowWhichPeersAreWanted) {
  Alone parts(plan_of_peers(3), among_peers());
  parts.paths.line_up(peer_origin(2), {0, 0});
  EXPECT_EQ(parts.paths.wanted_peers(), std::set<uint32_t>{2});
  EXPECT_EQ(parts.paths.take(peer_origin(2)), (BatchPlace{0, 0}));
  EXPECT_TRUE(parts.paths.wanted_peers().empty());
}

TEST(Flights, DoNotTakeALateAnswerForAnother) {
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)));
  const uint32_t first = parts.flights.start(kSource, 3, {kNoBatch, 0}, false);
  const uint64_t late = parts.take<action::Read>().at(0).request;
  EXPECT_EQ(parts.flights.ahead_bytes(), 100u);
  parts.flights.cancel(first);
  EXPECT_EQ(parts.flights.start(kSource, 4, {kNoBatch, 0}, false), first);
  const uint64_t request = parts.take<action::Read>().at(0).request;
  EXPECT_EQ(parts.flights.end({late, ReadEnd::ok}), nullptr);
  ASSERT_NE(parts.flights.end({request, ReadEnd::ok}), nullptr);
  EXPECT_FALSE(parts.flights.any());
  EXPECT_EQ(parts.flights.ahead_bytes(), 0u);
}

TEST(Flights, AHedgeAndItsRivalKnowEachOther) {
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)));
  const uint32_t slot = parts.flights.start(kSource, 3, {kNoBatch, 0}, false);
  parts.flights.hedge(slot, kSource, {kNoBatch, 0});
  const uint32_t hedge = parts.flights[slot].rival;
  EXPECT_EQ(parts.flights[hedge].rival, slot);
  EXPECT_TRUE(parts.flights[hedge].hedge);
  EXPECT_EQ(parts.desk.totals.hedged_bytes, 100u);
  const Flight& ended = parts.flights.cancel(slot);
  EXPECT_FALSE(parts.flights.part(ended).is_hedged());
}

TEST(Flights, AreTriedAgainWhenTheirTimeHasCome) {
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)));
  parts.flights.try_again(milliseconds(20), {0, 1});
  parts.flights.try_again(milliseconds(10), {0, 2});
  EXPECT_EQ(parts.flights.next_retry(), milliseconds(10));
  parts.desk.now = milliseconds(15);
  parts.flights.retry_due();
  EXPECT_EQ(parts.paths.take_all(kSource), (std::vector<BatchPlace>{{0, 2}}));
  EXPECT_EQ(parts.flights.next_retry(), milliseconds(20));
}

}  // namespace
}  // namespace foreload
