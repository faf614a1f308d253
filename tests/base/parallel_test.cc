// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/parallel.h"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/cpus.h"

namespace foreload {
namespace {

TEST(ParallelFor, DoesEveryPieceOnce) {
  std::vector<std::atomic<int>> done(1000);
  EXPECT_TRUE(parallel_for(done.size(), 4, [&](uint64_t piece, unsigned worker) {
    EXPECT_LT(worker, 4u);
    ++done[piece];
  }));
  for (const auto& times : done) EXPECT_EQ(times, 1);
}

TEST(ParallelFor, DoesNothingForNoPieces) {
  EXPECT_TRUE(parallel_for(0, 4, [](uint64_t, unsigned) { FAIL(); }));
}

TEST(ParallelFor, StopsWhenProgressSaysSo) {
  uint64_t pieces = 0;
  EXPECT_FALSE(parallel_for(
      1000, 1, [&](uint64_t, unsigned) { ++pieces; },
      [](uint64_t done, uint64_t) { return done < 10; }));
  EXPECT_EQ(pieces, 10u);
}

TEST(ParallelFor, ReportsProgressFromTheCallingThread) {
  const auto caller = std::this_thread::get_id();
  parallel_for(
      100, 3, [](uint64_t, unsigned) {},
      [&](uint64_t done, uint64_t total) {
        EXPECT_EQ(std::this_thread::get_id(), caller);
        EXPECT_LE(done, total);
        return true;
      });
}

TEST(AvailableCpus, IsAtLeastOneAndAtMostWhatTheMachineHas) {
  EXPECT_GE(available_cpus(), 1u);
  EXPECT_LE(available_cpus(), std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace foreload
