// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/operations.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace foreload {
namespace {

using std::chrono::nanoseconds;

TEST(Operations, CountsTimeBytesAndFailures) {
  Operations operations;
  operations.count(Operation::read, nanoseconds(10), 100'000);
  operations.count(Operation::read, nanoseconds(5), 0, /*failed=*/true);
  const Operations::Totals totals = operations.totals(Operation::read);
  EXPECT_EQ(totals.count, 2);
  EXPECT_EQ(totals.failed, 1);
  EXPECT_EQ(totals.nanoseconds, 15);
  EXPECT_EQ(totals.bytes, 100'000);
  EXPECT_EQ(operations.totals(Operation::open).count, 0);
}

TEST(Operations, UpperEndsOfBinsAreExclusive) {
  Operations operations;
  for (uint64_t bound : kSizeBins) {
    operations.count(Operation::write, nanoseconds(0), bound - 1);
    operations.count(Operation::write, nanoseconds(0), bound);
  }
  const auto bins = operations.totals(Operation::write).size_bins;
  EXPECT_EQ(bins.front(), 1);
  for (size_t i = 1; i + 1 < bins.size(); ++i) EXPECT_EQ(bins[i], 2) << i;
  EXPECT_EQ(bins.back(), 1);
}

TEST(Operations, ClockThatWentBackAddsNothing) {
  Operations operations;
  operations.count(Operation::stat, nanoseconds(-7));
  EXPECT_EQ(operations.totals(Operation::stat).nanoseconds, 0);
}

TEST(Operations, VisitsOnlyWhatWasCounted) {
  Operations operations;
  operations.count(Operation::list, nanoseconds(1));
  operations.count(Operation::read, nanoseconds(1), 5);
  std::string seen;
  operations.visit([&seen](Operation operation, const Operations::Totals& totals) {
    seen += std::string(name_of(operation)) + ":" + std::to_string(totals.bytes) + " ";
  });
  EXPECT_EQ(seen, "list:0 read:5 ");
}

TEST(Operations, CountsFromManyThreadsExactly) {
  constexpr uint64_t kThreads = 4;
  constexpr uint64_t kEach = 10'000;
  Operations operations;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&operations] {
      for (uint64_t i = 0; i < kEach; ++i) {
        operations.count(Operation::read, nanoseconds(2), 50, i % 2 == 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Operations::Totals totals = operations.totals(Operation::read);
  EXPECT_EQ(totals.count, kThreads * kEach);
  EXPECT_EQ(totals.failed, kThreads * kEach / 2);
  EXPECT_EQ(totals.nanoseconds, 2 * kThreads * kEach);
  EXPECT_EQ(totals.bytes, 50 * kThreads * kEach);
  EXPECT_EQ(totals.size_bins[0], kThreads * kEach);
}

}  // namespace
}  // namespace foreload
