// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/stage.h"

#include <gtest/gtest.h>

namespace foreload {
namespace {

using std::chrono::seconds;

TEST(StageLoad, AddsUpWhatItWasTold) {
  const StageLoad::Time begin{};
  StageLoad load(begin);
  load.set(begin + seconds(2), 4, 10);  // idle until now
  load.set(begin + seconds(5), 1, 0);
  load.set(begin + seconds(6), 0, 0);
  load.set(begin + seconds(8), 0, 0);
  const StageTotals& totals = load.totals();
  EXPECT_DOUBLE_EQ(totals.busy_seconds, 4);
  EXPECT_DOUBLE_EQ(totals.waiting_seconds, 4);
  EXPECT_DOUBLE_EQ(totals.mean_in_flight(), (3 * 4 + 1) / 8.0);
  EXPECT_DOUBLE_EQ(totals.mean_queued(), 3 * 10 / 8.0);
  EXPECT_EQ(totals.most_in_flight, 4u);
  EXPECT_EQ(totals.most_queued, 10u);
}

TEST(StageLoad, NothingYet) {
  const StageLoad load(StageLoad::Time{});
  EXPECT_EQ(load.totals().mean_in_flight(), 0);
  EXPECT_EQ(load.totals().mean_queued(), 0);
}

}  // namespace
}  // namespace foreload
