// SPDX-License-Identifier: Apache-2.0
//
// The policy of one rank under thousands of fault schedules. A failure names its seed, and
// --gtest_also_run_disabled_tests --gtest_filter=*Replay* with FORELOAD_SEED set runs it again.
#include <cstdlib>

#include <gtest/gtest.h>

#include "faulty_run.h"

namespace foreload::sim {
namespace {

void run_seeds(uint64_t first, uint64_t count) {
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const auto complaint = FaultyRun(seed).run();
    ASSERT_FALSE(complaint) << "seed " << seed << ": " << *complaint;
  }
}

TEST(PolicyFaults, NothingGoesWrongUnderThousandsOfSchedules) {
  run_seeds(0, 5000);
}

TEST(PolicyFaultsSoak, NothingGoesWrongUnderAHundredThousandSchedules) {
  run_seeds(1'000'000, 100'000);
}

TEST(PolicyFaults, DISABLED_Replay) {
  const char* seed = std::getenv("FORELOAD_SEED");
  ASSERT_NE(seed, nullptr) << "set FORELOAD_SEED";
  run_seeds(std::strtoull(seed, nullptr, 10), 1);
}

TEST(PolicyFaults, ASeedSaysTheSameAgain) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const auto first = FaultyRun(seed, Sabotage::wrong_sample).run();
    EXPECT_EQ(first, FaultyRun(seed, Sabotage::wrong_sample).run()) << seed;
  }
}

// A broken policy must be found out, by most seeds.
class BrokenPolicy : public testing::TestWithParam<std::pair<std::string, Sabotage>> {};

TEST_P(BrokenPolicy, IsCaught) {
  int caught = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    caught += FaultyRun(seed, GetParam().second).run() ? 1 : 0;
  EXPECT_GE(caught, 20);
}

INSTANTIATE_TEST_SUITE_P(
    Sabotages, BrokenPolicy,
    testing::Values(std::pair<std::string, Sabotage>{"LosesReads", Sabotage::lose_read},
                    std::pair<std::string, Sabotage>{"RepeatsDeliveries", Sabotage::repeat_deliver},
                    std::pair<std::string, Sabotage>{"SwapsDeliveries", Sabotage::swap_deliveries},
                    std::pair<std::string, Sabotage>{"ReadsTheWrongSample", Sabotage::wrong_sample},
                    std::pair<std::string, Sabotage>{"ForgetsCopies", Sabotage::forget_copy},
                    std::pair<std::string, Sabotage>{"CrowdsATier", Sabotage::crowd_tier},
                    std::pair<std::string, Sabotage>{"LosesDecodes", Sabotage::lose_decode}),
    [](const auto& name) { return name.param.first; });

}  // namespace
}  // namespace foreload::sim
