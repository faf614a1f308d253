// SPDX-License-Identifier: Apache-2.0
//
// The policy of one rank, step by step. Random worlds with faults: tests/sim/faults_test.cc.
#include "foreload/policy/policy.h"

#include <set>

#include <gtest/gtest.h>

#include "foreload/plan/given_order.h"

#include "one_rank.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;

TEST(Policy, DeliversEveryEpochsListInOrder) {
  OneRank world(plan_of(job_of(3, 0), *Sizes::uniform(10, 100)));
  world.run();
  ASSERT_EQ(world.lists_.size(), 3u);
  for (uint64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(world.lists_[epoch], reading_list(*world.plan_, epoch));
  EXPECT_EQ(world.delivered_.size(), 9u);
}

TEST(Policy, ReadsTheSourceOnceIfEverythingFits) {
  OneRank world(plan_of(job_of(5, 500, 500), *Sizes::uniform(10, 100)));
  world.run();
  EXPECT_EQ(world.source_bytes_, 1000u);
  EXPECT_EQ(world.source_bytes_, world.plan_->traffic().source_bytes());
}

TEST(Policy, ReadsWhatThePlanSaysIfItDoesNotFit) {
  PolicySettings settings;
  settings.window_bytes = 1024;
  OneRank world(plan_of(job_of(6, 200, 300), *Sizes::uniform(10, 100)), settings);
  world.run();
  EXPECT_EQ(world.source_bytes_, world.plan_->traffic().source_bytes());
}

TEST(Policy, StartsWarmFromWhatTiersHold) {
  Job job = job_of(2, 0, 1000);
  for (uint64_t sample = 0; sample < 6; ++sample) job.held.push_back({sample, 0, 1});
  OneRank world(plan_of(job, *Sizes::uniform(10, 100)), {}, job.held);
  world.run();
  EXPECT_EQ(world.source_bytes_, 400u);
}

TEST(Policy, LiftsACopyToTheTierThePlanWants) {
  Job job = job_of(2, 500, 1000);
  for (uint64_t sample = 0; sample < 10; ++sample) job.held.push_back({sample, 0, 1});
  PolicySettings settings;
  settings.window_bytes = 4 * 128;
  OneRank world(plan_of(job, *Sizes::uniform(10, 100)), settings, job.held);
  world.run();
  EXPECT_EQ(world.source_bytes_, 0u);
  EXPECT_EQ(world.kept(0), 5u);
  EXPECT_EQ(world.kept(1), 10u);
}

TEST(Policy, PutsABackUpOnTheSlowerTier) {
  OneRank world(plan_of(job_of(2, 500, 1000), *Sizes::uniform(10, 100)));
  world.run();
  EXPECT_EQ(world.kept(0), 5u);
  EXPECT_EQ(world.kept(1), 10u);
}

TEST(Policy, LooksAheadAcrossTheEpochBorder) {
  PolicySettings settings;
  settings.source_limiter = {64, 64, 64};
  OneRank world(plan_of(job_of(2, 0), *Sizes::uniform(4, 100)), settings);
  // Nothing was delivered yet, but the second epoch's batch waits for the same samples.
  EXPECT_EQ(world.reads_.size(), 4u);
  EXPECT_EQ(world.totals().merged, 4u);
  world.run();
  EXPECT_EQ(world.source_bytes_, 400u);  // merged: both epochs from one read
  EXPECT_EQ(world.totals().read_along_bytes, 400u);
  EXPECT_EQ(world.lists_[1], reading_list(*world.plan_, 1));
}

TEST(Policy, KeepsTheWindowWithinItsBytes) {
  PolicySettings settings;
  settings.window_bytes = 3 * 4 * 128;  // three batches of 4 samples of 100 B, aligned to 128
  OneRank world(plan_of(job_of(2, 0), *Sizes::uniform(100, 100)), settings);
  EXPECT_EQ(world.totals().window_bytes, settings.window_bytes);
  world.run(3);
  EXPECT_EQ(world.delivered_.size(), 3u);
  EXPECT_EQ(world.totals().window_bytes, settings.window_bytes);
}

// Of tiny samples millions were in the window, and each seek had to let go of all of them.
TEST(Policy, KeepsTheWindowWithinItsSamples) {
  PolicySettings settings;
  settings.window_samples = 3 * 4;  // three batches
  OneRank world(plan_of(job_of(2, 0), *Sizes::uniform(100, 100)), settings);
  EXPECT_EQ(world.totals().window_bytes, 3u * 4 * 128);
  world.run(3);
  EXPECT_EQ(world.totals().window_bytes, 3u * 4 * 128);
}

TEST(Policy, OpensOneBatchEvenIfItIsLargerThanTheWindow) {
  PolicySettings settings;
  settings.window_bytes = 10;
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)), settings);
  world.run();
  EXPECT_EQ(world.delivered_.size(), 3u);
}

TEST(Policy, ReadsAheadIntoTiersWhenTheWindowIsFull) {
  PolicySettings settings;
  settings.window_bytes = 4 * 128;
  settings.source_limiter = {64, 64, 64};
  OneRank world(plan_of(job_of(2, 10'000), *Sizes::uniform(40, 100)), settings);
  EXPECT_EQ(world.reads_.size(), 40u);  // 4 for the batch, the rest for the tier
  while (!world.reads_.empty()) world.end_read(world.reads_.rbegin()->first);
  world.run();
  EXPECT_EQ(world.source_bytes_, 4000u);
  EXPECT_EQ(world.lists_[1], reading_list(*world.plan_, 1));
}

TEST(Policy, ReadsWhatIsNeededBeforeWhatIsAhead) {
  PolicySettings settings;
  settings.window_bytes = 8 * 128;
  settings.source_limiter = {1, 1, 1};
  OneRank world(plan_of(job_of(1, 10'000), *Sizes::uniform(40, 100)), settings);
  std::vector<uint64_t> order;
  for (int i = 0; i < 8; ++i) {
    order.push_back(world.reads_.begin()->second.sample);
    world.end_read(world.reads_.begin()->first);
  }
  const auto list = reading_list(*world.plan_, 0);
  EXPECT_EQ(order, std::vector<uint64_t>(list.begin(), list.begin() + 8));
}

TEST(Policy, TriesAgainAfterTransientErrors) {
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(1, 100)));
  world.end_read(world.reads_.begin()->first, ReadEnd::transient);
  EXPECT_TRUE(world.reads_.empty());
  world.advance(milliseconds(100));
  ASSERT_EQ(world.reads_.size(), 1u);
  world.end_read(world.reads_.begin()->first, ReadEnd::transient);
  world.advance(milliseconds(199));
  EXPECT_TRUE(world.reads_.empty());  // the second wait is twice as long
  world.advance(milliseconds(1));
  world.run();
  EXPECT_EQ(world.delivered_.size(), 1u);
  EXPECT_EQ(world.totals().retries, 2u);
}

TEST(Policy, GivesUpAfterAllTries) {
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(1, 100)));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(world.reads_.size(), 1u);
    world.end_read(world.reads_.begin()->first, ReadEnd::transient);
    world.advance(milliseconds(1000));
  }
  ASSERT_EQ(world.failed_.size(), 1u);
  EXPECT_EQ(world.failed_[0].tries, 3u);
  EXPECT_EQ(world.failed_[0].since_first_try, milliseconds(2000));
  EXPECT_TRUE(world.reads_.empty());
}

TEST(Policy, GivesUpAHangingSourceAfterTwoDeadlines) {
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(1, 100)));
  world.end_read(world.reads_.begin()->first, ReadEnd::deadline);
  world.advance(milliseconds(1000));
  world.end_read(world.reads_.begin()->first, ReadEnd::deadline);
  EXPECT_EQ(world.failed_.size(), 1u);
}

TEST(Policy, DeliversWhatComesBeforeAFailedBatch) {
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(12, 100)));
  const uint64_t bad = reading_list(*world.plan_, 0)[5];
  for (int i = 0; i < 100 && !world.reads_.empty(); ++i) {
    const auto& [id, read] = *world.reads_.begin();
    world.end_read(id, read.sample == bad ? ReadEnd::permanent : ReadEnd::ok);
  }
  ASSERT_EQ(world.failed_.size(), 1u);
  EXPECT_EQ(world.failed_[0].place, (BatchPlace{1, 1}));
  EXPECT_EQ(world.delivered_, (std::vector<uint64_t>{0}));
}

TEST(Policy, FillsThePlaceOfASkippedSampleWithTheNextGoodOne) {
  PolicySettings settings;
  settings.skip_bad_samples = true;
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(8, 100)), settings);
  auto list = reading_list(*world.plan_, 0);
  const std::set<uint64_t> bad{list[2], list[3]};
  while (!world.reads_.empty()) {
    const auto& [id, read] = *world.reads_.begin();
    world.end_read(id, bad.contains(read.sample) ? ReadEnd::permanent : ReadEnd::ok);
  }
  EXPECT_EQ(world.skipped_.size(), 2u);
  EXPECT_EQ(world.totals().skipped, 2u);
  list[2] = list[0];
  list[3] = list[0];
  EXPECT_EQ(world.lists_[0], list);
}

TEST(Policy, FailsABatchInWhichNothingIsGood) {
  PolicySettings settings;
  settings.skip_bad_samples = true;
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(4, 100)), settings);
  while (!world.reads_.empty()) world.end_read(world.reads_.begin()->first, ReadEnd::permanent);
  EXPECT_EQ(world.failed_.size(), 1u);
}

TEST(Policy, ReadsTheSourceWhenACopyIsGone) {
  Job job = job_of(1, 0, 1000);
  for (uint64_t sample = 0; sample < 4; ++sample) job.held.push_back({sample, 0, 1});
  OneRank world(plan_of(job, *Sizes::uniform(4, 100)), {}, job.held);
  while (!world.reads_.empty()) {
    const auto& [id, read] = *world.reads_.begin();
    const bool tier = read.from.kind == Origin::Kind::tier;
    world.end_read(id, tier ? ReadEnd::missing : ReadEnd::ok);
  }
  EXPECT_EQ(world.delivered_.size(), 1u);
  EXPECT_EQ(world.source_bytes_, 400u);
}

TEST(Policy, GoesOnWithoutALostTier) {
  PolicySettings settings;
  settings.window_bytes = 4 * 128;
  OneRank world(plan_of(job_of(4, 0, 10'000), *Sizes::uniform(20, 100)), settings);
  world.run(7);
  world.lose_tier(1);
  world.run();
  EXPECT_EQ(world.delivered_.size(), 20u);
  for (uint64_t epoch = 0; epoch < 4; ++epoch)
    EXPECT_EQ(world.lists_[epoch], reading_list(*world.plan_, epoch));
}

TEST(Policy, SeeksToAnotherPlaceAndForgetsTheRest) {
  OneRank world(plan_of(job_of(5, 0), *Sizes::uniform(20, 100)));
  world.run(2);
  world.tell(event::Seek{3, 8});
  world.lists_.clear();
  world.run();
  const auto list = reading_list(*world.plan_, 3);
  EXPECT_EQ(world.lists_.at(3), std::vector<uint64_t>(list.begin() + 8, list.end()));
  EXPECT_EQ(world.lists_.at(4), reading_list(*world.plan_, 4));
  EXPECT_FALSE(world.lists_.contains(0));
}

TEST(Policy, IgnoresLateAnswers) {
  OneRank world(plan_of(job_of(2, 0), *Sizes::uniform(4, 100)));
  const uint64_t old = world.reads_.begin()->first;
  world.tell(event::Seek{0, 0});
  world.tell(event::ReadEnded{old, ReadEnd::ok});
  world.run();
  EXPECT_EQ(world.lists_[0], reading_list(*world.plan_, 0));
}

TEST(Policy, GoesOnForEverIfAsked) {
  PolicySettings settings;
  settings.endless = true;
  OneRank world(plan_of(job_of(1, 0), *Sizes::uniform(8, 100)), settings);
  world.run(100);
  EXPECT_EQ(world.lists_.at(30), reading_list(*world.plan_, 30));
}

std::shared_ptr<const EpochOrder> list_of(std::vector<uint64_t> samples,
                                          std::vector<uint64_t> batch_ends = {}) {
  return GivenOrder(10).give(std::move(samples), std::move(batch_ends))->list;
}

std::shared_ptr<const Plan> plan_of_lists(uint64_t memory, uint32_t ranks = 1) {
  Job job = job_of(1, memory);
  job.ranks = ranks;
  job.order = job.order.as_given();
  return plan_of(job, *Sizes::uniform(10, 100));
}

TEST(Policy, ReadsTheListsOfASamplerAsTheyCome) {
  PolicySettings settings;
  settings.endless = true;
  OneRank world(plan_of_lists(1000), settings);
  world.run();
  EXPECT_TRUE(world.delivered_.empty());
  world.tell(event::EpochKnown{0, list_of({3, 3, 1, 9, 0})});
  world.run();
  EXPECT_EQ(world.delivered_.size(), 2u);  // of four and of one
  world.tell(event::EpochKnown{1, list_of({5, 5, 2, 1, 3, 9}, {1, 4, 6})});
  world.run();
  EXPECT_EQ(world.delivered_.size(), 5u);
  EXPECT_EQ(world.lists_.at(0), (std::vector<uint64_t>{3, 3, 1, 9, 0}));
  EXPECT_EQ(world.lists_.at(1), (std::vector<uint64_t>{5, 5, 2, 1, 3, 9}));
}

TEST(Policy, ASeekForgetsTheListsOfASampler) {
  PolicySettings settings;
  settings.endless = true;
  OneRank world(plan_of_lists(0), settings);
  world.tell(event::EpochKnown{0, list_of({1, 2, 3, 4, 5})});
  world.tell(event::Seek{0, 0});
  world.tell(event::EpochKnown{0, list_of({6, 7})});
  world.run();
  EXPECT_EQ(world.lists_.at(0), (std::vector<uint64_t>{6, 7}));
}

TEST(Policy, AListThatIsGivenAfterASeekGoesOnWithThePlacesInTheEpoch) {
  PolicySettings settings;
  settings.endless = true;
  OneRank world(plan_of_lists(0, 2), settings);
  world.tell(event::Seek{3, 6});
  world.tell(event::EpochKnown{3, list_of({6, 7})});
  world.tell(event::EpochKnown{4, list_of({1})});
  world.run();
  ASSERT_EQ(world.open_.size(), 2u);
  EXPECT_EQ(world.open_.begin()->second.samples.size(), 2u);  // a list is what is left
  EXPECT_EQ(world.open_.begin()->second.sharding.position(1, 1), 6 + 2 + 1u);
  EXPECT_EQ(world.open_.rbegin()->second.sharding.position(0, 0), 0u);
}

// The order in which a batch of one rank is read.
std::vector<uint64_t> reads_of(Objective objective) {
  PolicySettings settings;
  settings.objective = objective;
  Job job = job_of(1, 0);
  job.batching.batch_size = 4;
  OneRank world(plan_of(job, *Sizes::of({100, 400, 200, 300})), settings);
  std::vector<uint64_t> sizes;
  for (const auto& [request, read] : world.reads_)
    sizes.push_back(world.plan_->sizes()[read.sample]);
  return sizes;
}

// A large sample that began last was what its batch waited for.
TEST(Policy, TheLargestSamplesOfABatchBeginFirstWhereTimeIsSaved) {
  EXPECT_EQ(reads_of(Objective::time), (std::vector<uint64_t>{400, 300, 200, 100}));
}

}  // namespace
}  // namespace foreload
