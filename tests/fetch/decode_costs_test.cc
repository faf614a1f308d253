// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/decode_costs.h"

#include <gtest/gtest.h>

namespace foreload {
namespace {

using std::chrono::milliseconds;

double expected_ms(const DecodeCosts& costs, uint64_t sample, uint64_t bytes) {
  return std::chrono::duration<double, std::milli>(costs.expected(sample, bytes)).count();
}

TEST(DecodeCosts, LargerFilesAreExpectedToTakeLongerBeforeAnythingIsDecoded) {
  const DecodeCosts costs(3);
  EXPECT_GT(costs.expected(0, 200), costs.expected(1, 100));
}

TEST(DecodeCosts, AnUnknownSampleIsExpectedToTakeWhatItsBytesTookOfOthers) {
  DecodeCosts costs(3);
  costs.count(0, 1000, milliseconds(2));
  costs.count(1, 3000, milliseconds(6));
  EXPECT_NEAR(expected_ms(costs, 2, 500), 1, 1e-3);
}

TEST(DecodeCosts, ASampleIsExpectedToTakeWhatItTookTheLastTime) {
  DecodeCosts costs(3);
  costs.count(0, 1000, milliseconds(40));
  costs.count(0, 1000, milliseconds(30));
  costs.count(1, 1000, milliseconds(1));
  EXPECT_NEAR(expected_ms(costs, 0, 1000), 30, 1e-3);
}

}  // namespace
}  // namespace foreload
