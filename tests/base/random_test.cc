// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/random.h"

#include <cmath>

#include <gtest/gtest.h>

namespace foreload {
namespace {

// The published known answers of Philox4x32-10.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox(0, 0, 0),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(UINT64_MAX, UINT64_MAX, UINT64_MAX),
            (std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0'a4093822, 0x85a308d3'243f6a88, 0x03707344'13198a2e),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxNormal, HasMeanZeroAndVarianceOne) {
  constexpr int kDraws = 100'000;
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    for (const double x : philox_normal(7, static_cast<uint64_t>(i))) {
      sum += x;
      squares += x * x;
    }
  }
  const double n = 2 * kDraws;
  EXPECT_NEAR(sum / n, 0, 4 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 6 / std::sqrt(n));
}

TEST(Mix64, MovesAboutHalfOfTheBits) {
  int flipped = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    for (int bit = 0; bit < 64; ++bit)
      flipped += __builtin_popcountll(mix64(i) ^ mix64(i ^ uint64_t{1} << bit));
  }
  EXPECT_NEAR(flipped / 64'000.0, 32, 0.5);
}

}  // namespace
}  // namespace foreload
