// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/reading_list.h"

#include <gtest/gtest.h>

#include "alone.h"

namespace foreload {
namespace {

TEST(ReadingList, IsCutIntoBatchesAcrossEpochs) {
  Alone parts(plan_of(job_of(2, 0), *Sizes::uniform(10, 100)));
  EXPECT_EQ(parts.list.next(), nullptr);
  EXPECT_EQ(parts.take<action::ComputeEpoch>().size(), 1u);
  parts.learn(0);
  std::vector<uint64_t> samples;
  std::vector<size_t> sizes;
  for (uint64_t number = 0; parts.list.next() != nullptr; ++number) {
    parts.list.open(number);
    if (number == 2) parts.learn(1);
  }
  for (const auto& batch : parts.take<action::OpenBatch>()) {
    sizes.push_back(batch.samples.size());
    EXPECT_EQ(batch.last_of_epoch, batch.samples.size() == 2);
    samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
  }
  EXPECT_EQ(sizes, (std::vector<size_t>{4, 4, 2, 4, 4, 2}));
  std::vector<uint64_t> expected = reading_list(*parts.desk.plan, 0);
  for (const uint64_t sample : reading_list(*parts.desk.plan, 1)) expected.push_back(sample);
  EXPECT_EQ(samples, expected);
}

TEST(ReadingList, AsksForTheNextEpochWhenTheLastBatchOpens) {
  Alone parts(plan_of(job_of(2, 0), *Sizes::uniform(8, 100)));
  parts.learn(0);
  ASSERT_NE(parts.list.next(), nullptr);
  parts.list.open(0);
  EXPECT_TRUE(parts.take<action::ComputeEpoch>().empty());
  ASSERT_NE(parts.list.next(), nullptr);
  parts.list.open(1);
  const auto asked = parts.take<action::ComputeEpoch>();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].epoch, 1u);
}

TEST(ReadingList, GoesOnWhereASeekSays) {
  Alone parts(plan_of(job_of(2, 0), *Sizes::uniform(10, 100)));
  parts.list.seek({1, 4});
  parts.learn(1);
  ASSERT_NE(parts.list.next(), nullptr);
  const std::vector<uint64_t> list = reading_list(*parts.desk.plan, 1);
  EXPECT_EQ(parts.list.next()->samples, std::vector<uint64_t>(list.begin() + 4, list.begin() + 8));
}

TEST(ReadingList, LooksAheadFromWhereItStopped) {
  Alone parts(plan_of(job_of(1, 0), *Sizes::uniform(10, 100)));
  parts.learn(0);
  ASSERT_NE(parts.list.next(), nullptr);
  parts.list.open(0);
  std::vector<uint64_t> seen;
  parts.list.look_ahead([&](uint64_t sample, bool) {
    if (seen.size() == 2) return false;
    seen.push_back(sample);
    return true;
  });
  EXPECT_EQ(seen.size(), 2u);
  bool more = true;
  parts.list.look_ahead([&](uint64_t sample, bool others) {
    seen.push_back(sample);
    more = others;
    return true;
  });
  EXPECT_FALSE(more);
  const std::vector<uint64_t> list = reading_list(*parts.desk.plan, 0);
  EXPECT_EQ(seen, std::vector<uint64_t>(list.begin() + 4, list.end()));
}

}  // namespace
}  // namespace foreload
