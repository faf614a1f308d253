// SPDX-License-Identifier: Apache-2.0
//
// The policies of several ranks and their protocol under thousands of fault schedules. A failure
// names its seed; FORELOAD_SEED and --gtest_also_run_disabled_tests run it again.
#include <cstdlib>

#include <gtest/gtest.h>

#include "faulty_cluster.h"

namespace foreload::sim {
namespace {

void run_seeds(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const auto complaint = FaultyCluster(seed).run();
    EXPECT_FALSE(complaint) << "seed " << seed << ": " << *complaint;
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PeerFaults, EveryLivingRankGetsItsListUnderThousandsOfSchedules) {
  run_seeds(0, 2000);
}

TEST(PeerFaultsSoak, EveryLivingRankGetsItsListUnderAHundredThousandSchedules) {
  run_seeds(1'000'000, 100'000);
}

TEST(PeerFaults, DISABLED_Replay) {
  const char* seed = std::getenv("FORELOAD_SEED");
  ASSERT_NE(seed, nullptr) << "set FORELOAD_SEED";
  run_seeds(std::strtoull(seed, nullptr, 10), 1);
}

}  // namespace
}  // namespace foreload::sim
