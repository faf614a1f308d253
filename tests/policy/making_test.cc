// SPDX-License-Identifier: Apache-2.0
//
// Samples that are made into the form in which they are kept, between their read from the source
// and everybody else.
#include <algorithm>
#include <chrono>

#include <gtest/gtest.h>

#include "one_rank.h"

namespace foreload {
namespace {

constexpr uint64_t kKept = 100;  // bytes of a sample
constexpr uint64_t kFile = 30;

PolicySettings made(uint64_t samples, PolicySettings settings = {}) {
  settings.made_from = std::make_shared<const Sizes>(*Sizes::uniform(samples, kFile));
  return settings;
}

std::shared_ptr<const Plan> plan_for(uint64_t samples, Job job) {
  return plan_of(std::move(job), *Sizes::uniform(samples, kKept));
}

// The only one there is.
uint64_t only(const auto& requests) {
  EXPECT_EQ(requests.size(), 1u);
  return requests.begin()->first;
}

TEST(MakingPolicy, MakesWhatTheSourceGivesAndNothingElse) {
  PolicySettings settings = made(10);
  settings.decode = true;
  OneRank world(plan_for(10, job_of(3, 500, 500)), settings);
  uint64_t makes = 0;
  while (world.delivered_.size() < 9) {
    if (!world.making_.empty()) {
      ++makes;
      world.end_make(world.making_.begin()->first);
    } else if (world.totals().decoding > 0) {
      world.advance(std::chrono::milliseconds(1));
    } else if (!world.reads_.empty()) {
      world.end_read(world.reads_.begin()->first);
    } else {
      world.consume();
    }
  }
  EXPECT_EQ(makes, 10u);
  for (uint64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(world.lists_[epoch], reading_list(*world.plan_, epoch));
  for (const auto& [sample, reads] : world.source_reads_) EXPECT_EQ(reads, 1u) << sample;
}

TEST(MakingPolicy, ForItsPathAReadIsOverWhenItArrives) {
  OneRank world(plan_for(1, job_of(1, 0)), made(1));
  EXPECT_EQ(world.source_limiter().in_flight(), 1u);
  world.end_read(only(world.reads_));
  EXPECT_EQ(world.source_limiter().in_flight(), 0u);
  EXPECT_TRUE(world.delivered_.empty());
  world.end_make(only(world.making_));
  EXPECT_EQ(world.delivered_.size(), 1u);
}

TEST(MakingPolicy, PlacesWaitForWhatIsBeingMade) {
  OneRank world(plan_for(1, job_of(3, 0)), made(1));
  world.end_read(only(world.reads_));
  EXPECT_TRUE(world.reads_.empty());
  world.end_make(only(world.making_));
  EXPECT_EQ(world.delivered_.size(), 3u);
  EXPECT_EQ(world.source_reads_[0], 1u);
  EXPECT_EQ(world.totals().read_along_bytes, 2 * kFile);
}

TEST(MakingPolicy, WhatCannotBeMadeFailsForAllWhoWait) {
  OneRank world(plan_for(1, job_of(3, 1000)), made(1));
  world.end_read(only(world.reads_));
  world.end_make(only(world.making_), false);
  ASSERT_EQ(world.failed_.size(), 3u);
  for (const action::Fail& fail : world.failed_) EXPECT_EQ(fail.end, ReadEnd::undecodable);
  EXPECT_EQ(world.kept(0), 0u);
  EXPECT_TRUE(world.reads_.empty()) << "to read it again would not help";
}

TEST(MakingPolicy, WhatCannotBeMadeIsSkipped) {
  PolicySettings settings = made(4);
  settings.skip_bad_samples = true;
  OneRank world(plan_for(4, job_of(1, 1000)), settings);
  while (!world.reads_.empty()) world.end_read(world.reads_.begin()->first);
  const uint64_t bad = world.making_.begin()->second.sample;
  world.end_make(world.making_.begin()->first, false);
  while (!world.making_.empty()) world.end_make(world.making_.begin()->first);
  ASSERT_EQ(world.skipped_.size(), 1u);
  EXPECT_EQ(world.skipped_[0].sample, bad);
  EXPECT_EQ(world.delivered_.size(), 1u);
  EXPECT_EQ(world.kept(0), 3u);
}

TEST(MakingPolicy, AReadAheadThatCannotBeMadeIsNotKept) {
  PolicySettings settings = made(8);
  settings.window_bytes = 0;
  settings.window_samples = 4;  // one batch
  settings.source_limiter.first = 16;
  OneRank world(plan_for(8, job_of(1, 10'000)), settings);
  const auto ahead = std::ranges::find_if(
      world.reads_, [](const auto& read) { return read.second.place.batch == kNoBatch; });
  ASSERT_NE(ahead, world.reads_.end());
  const auto [request, read] = *ahead;
  world.end_read(request);
  world.end_make(request, false);
  EXPECT_EQ(world.kept(0), 0u);
  EXPECT_TRUE(world.failed_.empty());
  world.run();  // its batch reads it again, and this time it can be made
  EXPECT_EQ(world.delivered_.size(), 2u);
  EXPECT_EQ(world.source_reads_[read.sample], 2u);
}

// Where hands are slower than the source, what waits for them must not grow without bound.
TEST(MakingPolicy, WhatIsBeingMadeCountsAsReadAhead) {
  PolicySettings settings = made(100);
  settings.window_bytes = 0;
  settings.ahead_bytes = 4 * (kKept + kFile);
  OneRank world(plan_for(100, job_of(1, 100'000)), settings);
  for (int round = 0; round < 100 && !world.reads_.empty(); ++round)
    world.end_read(world.reads_.begin()->first);
  EXPECT_EQ(world.making_.size(), 4u + 4u);  // a batch and those ahead
}

TEST(MakingPolicy, ASeekForgetsWhatIsBeingMade) {
  OneRank world(plan_for(4, job_of(2, 1000)), made(4));
  while (!world.reads_.empty()) world.end_read(world.reads_.begin()->first);
  const std::map<uint64_t, action::Make> before = world.making_;
  ASSERT_FALSE(before.empty());
  world.tell(event::Seek{0, 0});
  EXPECT_EQ(world.cancelled_.size(), before.size());
  for (const auto& [request, make] : before) world.tell(event::Made{request, true});
  EXPECT_EQ(world.kept(0), 0u);
  EXPECT_TRUE(world.delivered_.empty());
  world.run();
  EXPECT_EQ(world.lists_[1], reading_list(*world.plan_, 1));
}

TEST(MakingPolicy, ASeekReadsAgainWhatAFetchWaitsFor) {
  OneRank world(plan_for(4, job_of(1, 0)), made(4));
  world.run();
  world.tell(event::Fetch{kFetches, {2}});
  world.end_read(only(world.reads_));
  world.tell(event::Seek{0, 4});
  world.end_read(only(world.reads_));
  EXPECT_TRUE(world.fetched_.empty());
  world.end_make(only(world.making_));
  EXPECT_EQ(world.fetched_, std::vector<uint64_t>{kFetches});
}

TEST(MakingPolicy, AForgottenFetchIsKeptWhenItIsMade) {
  OneRank world(plan_for(4, job_of(2, 1000)), made(4));
  world.tell(event::Seek{1, 4});  // nothing is read in order any more
  world.tell(event::Fetch{kFetches, {2}});
  const uint64_t request = only(world.reads_);
  world.end_read(request);
  world.tell(event::ForgetFetch{kFetches});
  world.end_make(request);
  EXPECT_EQ(world.kept(0), 1u);
}

TEST(MakingPolicy, ALostTierIsGivenNothing) {
  OneRank world(plan_for(4, job_of(2, 1000)), made(4));
  while (!world.reads_.empty()) world.end_read(world.reads_.begin()->first);
  world.lose_tier(0);
  while (!world.making_.empty()) world.end_make(world.making_.begin()->first);
  EXPECT_EQ(world.kept(0), 0u);
  world.run();
  EXPECT_EQ(world.delivered_.size(), 2u);
}

// Only the first of two reads of a sample is made.
TEST(MakingPolicy, AHedgeThatComesFirstIsMade) {
  PolicySettings settings = made(40);
  settings.hedge_share = 1;
  OneRank world(plan_for(40, job_of(1, 0, 0, 1)), settings);
  while (world.delivered_.size() < 20) {
    world.advance(std::chrono::milliseconds(1));
    if (!world.making_.empty())
      world.end_make(world.making_.begin()->first);
    else
      world.end_read(std::ranges::min_element(world.reads_, {}, [](const auto& read) {
                       return read.second.place;
                     })->first);
  }
  // Time passes, and the read that the next batch waits for has not ended.
  for (int i = 0; i < 20 && world.hedges_ == 0; ++i) world.advance(std::chrono::milliseconds(500));
  ASSERT_EQ(world.hedges_, 1u);
  const auto hedge =
      std::ranges::find_if(world.reads_, [](const auto& read) { return read.second.hedge; });
  const auto [request, read] = *hedge;
  world.end_read(request);
  EXPECT_EQ(world.cancelled_.size(), 1u);
  EXPECT_EQ(world.making_.at(request).sample, read.sample);
  world.end_make(request);
  EXPECT_EQ(world.delivered_.size(), 21u);
}

}  // namespace
}  // namespace foreload
