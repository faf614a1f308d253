// SPDX-License-Identifier: Apache-2.0
//
// Fetches: random access beside the ordered batches. At random: tests/sim/faults_test.cc.
#include <algorithm>

#include <gtest/gtest.h>

#include "one_rank.h"

namespace foreload {
namespace {

constexpr uint64_t kFirst = kFetches;
constexpr uint64_t kSecond = kFetches + 1;

// Nothing is read in order: a sampler gives lists, and gives none.
OneRank only_fetches(uint64_t memory, PolicySettings settings = {}) {
  Job job = job_of(1, memory);
  job.order = job.order.as_given();
  settings.endless = true;
  return OneRank(plan_of(job, *Sizes::uniform(10, 100)), std::move(settings));
}

std::vector<action::Read> reads_of(const OneRank& world, uint64_t batch) {
  std::vector<action::Read> reads;
  for (const auto& [request, read] : world.reads_)
    if (read.place.batch == batch) reads.push_back(read);
  return reads;
}

// Samples that no open batch has yet.
std::vector<uint64_t> last_of_list(const OneRank& world, size_t count) {
  const std::vector<uint64_t> list = reading_list(*world.plan_, 0);
  return {list.end() - static_cast<ptrdiff_t>(count), list.end()};
}

TEST(PolicyFetch, ReadsEachSampleOnceAndKeepsIt) {
  OneRank world = only_fetches(1000);
  world.tell(event::Fetch{kFirst, {3, 7, 3}});
  EXPECT_EQ(world.reads_.size(), 2u);
  world.run();
  EXPECT_EQ(world.fetched_, (std::vector<uint64_t>{kFirst}));
  world.tell(event::Fetch{kSecond, {7}});
  ASSERT_EQ(world.reads_.size(), 1u);
  EXPECT_EQ(world.reads_.begin()->second.from, (Origin{Origin::Kind::tier, 0}));
  world.run();
  EXPECT_EQ(world.fetched_.size(), 2u);
  EXPECT_EQ(world.source_bytes_, 200u);
}

TEST(PolicyFetch, ABadSampleIsToldAndTheOthersCome) {
  PolicySettings settings;
  settings.skip_bad_samples = true;  // of batches: a fetch says what it has not
  OneRank world = only_fetches(0, settings);
  world.tell(event::Fetch{kFirst, {3, 7}});
  for (const action::Read& read : reads_of(world, kFirst))
    world.end_read(read.request, read.sample == 3 ? ReadEnd::permanent : ReadEnd::ok);
  ASSERT_EQ(world.failed_.size(), 1u);
  EXPECT_EQ(world.failed_[0].place, (BatchPlace{kFirst, 0}));
  EXPECT_EQ(world.fetched_.size(), 1u);
  EXPECT_TRUE(world.skipped_.empty());
}

TEST(PolicyFetch, TakesTurnsWithOrderedBatches) {
  PolicySettings settings;
  settings.source_limiter = {1, 1, 1};
  settings.window_bytes = 1600;
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(40, 100)), settings);
  const std::vector<uint64_t> fetched = last_of_list(world, 8);
  world.tell(event::Fetch{kFirst, fetched});
  std::vector<bool> fetches;
  while (world.fetched_.empty()) {
    ASSERT_EQ(world.reads_.size(), 1u);
    fetches.push_back(is_fetch(world.reads_.begin()->second.place.batch));
    world.end_read(world.reads_.begin()->first);
  }
  // The first read began before the fetch came; from then on every second is the fetch's.
  EXPECT_LE(fetches.size(), 2 * fetched.size() + 1);
  EXPECT_GE(std::ranges::count(fetches, false), std::ranges::count(fetches, true) - 1);
  world.run();
  EXPECT_EQ(world.lists_.at(0), reading_list(*world.plan_, 0));
}

TEST(PolicyFetch, ComesAlsoWhileTheLoopTakesNothing) {
  PolicySettings settings;
  settings.window_bytes = 800;
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(40, 100)), settings);
  while (!world.reads_.empty()) world.end_read(world.reads_.begin()->first);
  EXPECT_FALSE(world.delivered_.empty());  // and none is consumed
  for (uint64_t i = 0; i < 5; ++i) world.tell(event::Fetch{kFetches + i, {i, 10 + i, 20 + i}});
  while (!world.reads_.empty()) world.end_read(world.reads_.begin()->first);
  EXPECT_EQ(world.fetched_.size(), 5u);
}

TEST(PolicyFetch, WhatWaitsForTheSourceIsNotReadAfterItIsForgotten) {
  PolicySettings settings;
  settings.source_limiter = {1, 1, 1};
  settings.window_bytes = 500;
  OneRank world = only_fetches(0, settings);
  world.tell(event::Fetch{kFirst, {0, 1, 2, 3}});
  world.tell(event::Fetch{kSecond, {4, 3}});    // no room for it yet
  world.tell(event::Fetch{kFetches + 2, {5}});  // nor for this
  world.tell(event::ForgetFetch{kFirst});
  world.tell(event::ForgetFetch{kFetches + 2});
  world.run();
  EXPECT_EQ(world.source_reads_, (std::map<uint64_t, uint64_t>{{0, 1}, {3, 1}, {4, 1}}));
  EXPECT_EQ(std::ranges::count(world.fetched_, kSecond), 1);
  EXPECT_EQ(std::ranges::count(world.fetched_, kFetches + 2), 0);
}

// Whoever waits for the same sample gets it, though the read that failed was somebody else's.
TEST(PolicyFetch, OthersReadWhatAForgottenOneCouldNot) {
  OneRank world = only_fetches(0);
  world.tell(event::Fetch{kFirst, {3}});
  world.tell(event::Fetch{kSecond, {3}});
  ASSERT_EQ(world.reads_.size(), 1u);
  world.tell(event::ForgetFetch{kFirst});
  world.end_read(world.reads_.begin()->first, ReadEnd::permanent);
  EXPECT_TRUE(world.failed_.empty());
  world.run();
  EXPECT_EQ(std::ranges::count(world.fetched_, kSecond), 1);
}

TEST(PolicyFetch, GoesOnAfterASeek) {
  PolicySettings settings;
  settings.window_bytes = 800;
  settings.ahead_bytes = 0;
  settings.source_limiter = {6, 6, 6};  // four for the batch: of the fetch two are read, two wait
  OneRank world(plan_of(job_of(2, 400), *Sizes::uniform(40, 100)), settings);
  world.tell(event::Fetch{kFirst, last_of_list(world, 4)});
  ASSERT_EQ(reads_of(world, kFirst).size(), 2u);
  world.end_read(reads_of(world, kFirst)[0].request);
  world.tell(event::Seek{1, 0});
  world.run();
  EXPECT_EQ(world.fetched_, (std::vector<uint64_t>{kFirst}));
  EXPECT_EQ(world.lists_.at(1), reading_list(*world.plan_, 1));
}

}  // namespace
}  // namespace foreload
