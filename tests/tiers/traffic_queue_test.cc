// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/traffic_queue.h"

#include <array>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

using Queue = TrafficQueue<int>;

TEST(TrafficQueueTest, KeepsTheOrderWithinAClass) {
  Queue queue;
  for (int i = 0; i < 100; ++i) queue.push(Traffic::fill, mix64(i + 1) % 100'000, i);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queue.pop(), i);
  EXPECT_EQ(queue.pop(), std::nullopt);
  EXPECT_TRUE(queue.empty());
}

// While all wait, each class gets its part of the bytes, whatever the sizes of its items.
TEST(TrafficQueueTest, SharesByWeight) {
  Queue queue;
  constexpr std::array<uint64_t, kTraffics> kSizes{100'000, 1'000'000, 50'000, 100'000, 300'000};
  for (int number = 0; number < static_cast<int>(kTraffics); ++number)
    for (int i = 0; i < 20'000; ++i)
      queue.push(static_cast<Traffic>(number), kSizes[number], number);
  std::array<uint64_t, kTraffics> served{};
  uint64_t all = 0;
  while (all < 1'000'000'000) {
    const int number = *queue.pop();
    served[number] += kSizes[number];
    all += kSizes[number];
  }
  for (size_t i = 0; i < kTraffics; ++i)
    EXPECT_NEAR(static_cast<double>(served[i]) / static_cast<double>(all),
                kTrafficWeights[i] / 24.0, 0.005)
        << i;
}

TEST(TrafficQueueTest, WhoIsAloneHasItAllAndWhoRestedSavedNothing) {
  Queue queue;
  for (int i = 0; i < 1000; ++i) queue.push(Traffic::checkpoint, 1'000'000, 0);
  for (int i = 0; i < 500; ++i) EXPECT_EQ(queue.pop(), 0);
  // A class that comes late is due at once, but does not catch up with what went before.
  for (int i = 0; i < 1000; ++i) queue.push(Traffic::fill, 1'000'000, 1);
  int late = 0;
  for (int i = 0; i < 300; ++i) late += *queue.pop();
  EXPECT_NEAR(late, 200, 3);
}

TEST(TrafficQueueTest, SmallItemsAreNotFree) {
  Queue queue;
  for (int i = 0; i < 1000; ++i) queue.push(Traffic::training, 0, 0);
  queue.push(Traffic::fill, 0, 1);
  queue.push(Traffic::fill, 0, 1);
  int before = 0;
  for (int ones = 0; ones < 2; before += 1) ones += *queue.pop();
  EXPECT_LE(before, 20);
}

TEST(TrafficQueueTest, WhatIsCancelledIsNotPaidFor) {
  Queue queue;
  for (int i = 0; i < 1000; ++i) queue.push(Traffic::training, 1'000'000, 0);
  queue.cancel([](int&) { return true; });
  for (int i = 0; i < 100; ++i) queue.push(Traffic::checkpoint, 1'000'000, 1);
  for (int i = 0; i < 100; ++i) queue.push(Traffic::training, 1'000'000, 0);
  int others = 0;
  for (int i = 0; i < 85; ++i) others += *queue.pop();
  EXPECT_NEAR(others, 5, 2);
}

TEST(TrafficQueueTest, CancelTakesOutWhatItIsTold) {
  Queue queue;
  for (int i = 0; i < 10; ++i) queue.push(static_cast<Traffic>(i % 5), 10, i);
  queue.cancel([](int& item) { return item % 2 == 0; });
  EXPECT_EQ(queue.size(), 5u);
  int count = 0;
  while (const auto item = queue.pop()) {
    EXPECT_EQ(*item % 2, 1);
    ++count;
  }
  EXPECT_EQ(count, 5);
}

}  // namespace
}  // namespace foreload
