// SPDX-License-Identifier: Apache-2.0
//
// Reads that are late: hedged, or given up.
#include <gtest/gtest.h>

#include "one_rank.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Reads of 1 to 2 ms each until `batches` are delivered.
void run_quickly(OneRank& world, uint64_t batches) {
  for (uint64_t i = 0; world.delivered_.size() < batches && i < 100'000; ++i) {
    world.advance(milliseconds(1));
    world.run(1);
  }
}

PolicySettings one_batch_at_a_time() {
  PolicySettings settings;
  settings.window_bytes = 400;
  settings.ahead_bytes = 0;
  settings.source_limiter = {4, 4, 4};
  return settings;
}

TEST(Lateness, ALateReadOfTheNextBatchIsHedged) {
  OneRank world(plan_of(job_of(100, 0), *Sizes::uniform(20, 100)), one_batch_at_a_time());
  run_quickly(world, 300);  // 1,200 samples: six may be hedged
  world.consume();
  ASSERT_EQ(world.reads_.size(), 4u);
  while (world.reads_.size() > 1) world.end_read(world.reads_.begin()->first);
  const action::Read late = world.reads_.begin()->second;
  world.advance(milliseconds(49));
  EXPECT_EQ(world.hedges_, 0u);
  world.advance(milliseconds(60));
  EXPECT_EQ(world.hedges_, 1u);
  ASSERT_EQ(world.reads_.size(), 2u);
  const action::Read hedge = world.reads_.rbegin()->second.hedge ? world.reads_.rbegin()->second
                                                                 : world.reads_.begin()->second;
  EXPECT_EQ(hedge.place, late.place);
  const size_t before = world.delivered_.size();
  world.end_read(hedge.request);
  EXPECT_EQ(world.delivered_.size(), before + 1);
  EXPECT_EQ(world.cancelled_, std::vector<uint64_t>{late.request});
  EXPECT_EQ(world.totals().hedged, 1u);
  EXPECT_EQ(world.totals().hedged_bytes, 100u);
}

TEST(Lateness, TheFirstReadMayStillWin) {
  OneRank world(plan_of(job_of(100, 0), *Sizes::uniform(20, 100)), one_batch_at_a_time());
  run_quickly(world, 300);
  world.consume();
  while (world.reads_.size() > 1) world.end_read(world.reads_.begin()->first);
  const uint64_t late = world.reads_.begin()->first;
  world.advance(milliseconds(110));
  ASSERT_EQ(world.reads_.size(), 2u);
  world.end_read(late);
  EXPECT_TRUE(world.reads_.empty());
  EXPECT_EQ(world.cancelled_.size(), 1u);
  world.run();
  EXPECT_EQ(world.lists_.at(99), reading_list(*world.plan_, 99));
}

TEST(Lateness, OneThatFailsLeavesItToTheOther) {
  OneRank world(plan_of(job_of(100, 0), *Sizes::uniform(20, 100)), one_batch_at_a_time());
  run_quickly(world, 300);
  world.consume();
  while (world.reads_.size() > 1) world.end_read(world.reads_.begin()->first);
  const uint64_t late = world.reads_.begin()->first;
  world.advance(milliseconds(110));
  world.end_read(late, ReadEnd::deadline);
  EXPECT_EQ(world.totals().retries, 0u);
  EXPECT_EQ(world.reads_.size(), 1u);
  world.run();
  EXPECT_EQ(world.lists_.at(99), reading_list(*world.plan_, 99));
}

TEST(Lateness, HedgedReadsStayBelowTheirShare) {
  OneRank world(plan_of(job_of(50, 0), *Sizes::uniform(20, 100)), one_batch_at_a_time());
  // The last read of every batch is late.
  while (world.delivered_.size() < 250) {
    while (world.reads_.size() > 1) {
      world.advance(milliseconds(1));
      world.end_read(world.reads_.begin()->first);
    }
    world.advance(milliseconds(55));
    world.advance(milliseconds(55));
    if (!world.reads_.empty()) world.end_read(world.reads_.rbegin()->first);
    if (world.reads_.empty() && world.delivered_.size() > world.consumed_) world.consume();
  }
  const PolicyTotals totals = world.totals();
  EXPECT_GT(totals.hedged, 0u);
  EXPECT_LE(static_cast<double>(totals.hedged_bytes),
            0.005 * static_cast<double>(world.source_bytes_));
}

TEST(Lateness, OnlyTheNextBatchIsHedged) {
  PolicySettings settings = one_batch_at_a_time();
  settings.window_bytes = 100'000;
  settings.hedge_share = 1;
  OneRank world(plan_of(job_of(2, 0), *Sizes::uniform(40, 100)), settings);
  world.advance(milliseconds(1));
  world.end_read(world.reads_.begin()->first);  // what is usual is known from now on
  ASSERT_EQ(world.reads_.size(), 4u);           // three of the first batch, one of the second
  world.advance(milliseconds(110));
  world.advance(milliseconds(110));
  EXPECT_EQ(world.hedges_, 1u);  // one sample's share was read so far
  for (const auto& [id, read] : world.reads_) {
    if (read.hedge) {
      EXPECT_EQ(read.place.batch, 0u);
    }
  }
}

TEST(Lateness, ACopyThatDoesNotComeIsAMiss) {
  PolicySettings settings = one_batch_at_a_time();
  OneRank world(plan_of(job_of(3, 0, 2000), *Sizes::uniform(20, 100)), settings);
  world.run(5);
  world.consume();
  ASSERT_EQ(world.reads_.size(), 4u);
  const action::Read stuck = world.reads_.begin()->second;
  ASSERT_EQ(stuck.from, (Origin{Origin::Kind::tier, 1}));
  while (world.reads_.size() > 1) world.end_read(world.reads_.rbegin()->first);
  world.advance(seconds(11));
  EXPECT_EQ(world.cancelled_, std::vector<uint64_t>{stuck.request});
  ASSERT_EQ(world.reads_.size(), 1u);
  EXPECT_EQ(world.reads_.begin()->second.from.kind, Origin::Kind::source);
  EXPECT_EQ(world.totals().late_tier_reads, 1u);
  EXPECT_TRUE(world.lost_.empty());
  world.run();
  EXPECT_EQ(world.lists_.at(2), reading_list(*world.plan_, 2));
}

TEST(Lateness, ATierThatAnswersNoMoreIsGivenUp) {
  PolicySettings settings = one_batch_at_a_time();
  settings.window_bytes = 1100;
  settings.hedge_share = 0;
  settings.tier_limiters = {{8, 8, 8}, {8, 8, 8}};
  OneRank world(plan_of(job_of(3, 0, 2000), *Sizes::uniform(20, 100)), settings);
  world.run(5);
  while (world.reads_.size() < 8 && world.delivered_.size() > world.consumed_) world.consume();
  ASSERT_EQ(world.reads_.size(), 8u);
  world.advance(seconds(11));
  EXPECT_EQ(world.lost_, std::vector<uint32_t>{1});
  for (const auto& [id, read] : world.reads_) EXPECT_EQ(read.from.kind, Origin::Kind::source);
  world.run();
  EXPECT_EQ(world.lists_.at(2), reading_list(*world.plan_, 2));
}

// The hedge was a read that nobody knew of once the copy was gone: others read the source again.
TEST(Lateness, TheHedgeOfALostTierIsForAllWhoWantTheSample) {
  PolicySettings settings = one_batch_at_a_time();
  settings.source_limiter = {8, 8, 8};
  settings.hedge_share = 1;
  OneRank world(plan_of(job_of(3, 0, 2000), *Sizes::uniform(20, 100)), settings);
  world.run(6);
  world.consume();
  world.advance(milliseconds(1));  // what is usual
  while (world.reads_.size() > 1) world.end_read(world.reads_.rbegin()->first);
  const action::Read stuck = world.reads_.begin()->second;
  ASSERT_EQ(stuck.from, (Origin{Origin::Kind::tier, 1}));
  world.advance(milliseconds(110));
  ASSERT_EQ(world.hedges_, 1u);
  world.lose_tier(1);
  EXPECT_EQ(world.cancelled_, std::vector<uint64_t>{stuck.request});
  world.tell(event::Fetch{kFetches, {stuck.sample}});
  ASSERT_EQ(world.reads_.size(), 1u);  // the hedge
  world.end_read(world.reads_.begin()->first);
  EXPECT_EQ(world.fetched_.size(), 1u);
  EXPECT_EQ(world.delivered_.size(), 7u);
  world.run();
  EXPECT_EQ(world.lists_.at(2), reading_list(*world.plan_, 2));
}

TEST(Lateness, DecodingComesBeforeDelivery) {
  PolicySettings settings;
  settings.decode = true;
  OneRank world(plan_of(job_of(2, 0), *Sizes::uniform(8, 100)), settings);
  while (!world.reads_.empty()) world.end_read(world.reads_.begin()->first);
  EXPECT_TRUE(world.delivered_.empty());
  EXPECT_EQ(world.totals().decoding, 16u);
  world.advance(milliseconds(5));  // one millisecond for each of four, the first batch's first
  EXPECT_EQ(world.delivered_.size(), 1u);
  world.run();
  EXPECT_EQ(world.delivered_.size(), 4u);
}

TEST(Lateness, WhatCannotBeDecodedFailsOrIsSkipped) {
  for (const bool skip : {false, true}) {
    PolicySettings settings;
    settings.decode = true;
    settings.skip_bad_samples = skip;
    OneRank world(plan_of(job_of(1, 800), *Sizes::uniform(8, 100)), settings);
    world.undecodable_ = reading_list(*world.plan_, 0)[1];
    world.run();
    EXPECT_EQ(world.failed_.size(), skip ? 0u : 1u);
    EXPECT_EQ(world.skipped_.size(), skip ? 1u : 0u);
    EXPECT_EQ(world.delivered_.size(), skip ? 2u : 0u);
  }
}

}  // namespace
}  // namespace foreload
