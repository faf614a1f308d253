// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/sample_states.h"

#include <map>
#include <random>

#include <gtest/gtest.h>

#include "foreload/policy/fifo.h"

namespace foreload {
namespace {

TEST(SparseStates, KeepWhatAMapKeeps) {
  std::mt19937_64 random(1);
  SparseStates<uint8_t> states;
  std::map<uint64_t, uint8_t> expected;
  for (int i = 0; i < 20'000; ++i) {
    const uint64_t largest = (uint64_t{1} << 56) - 2;
    const uint64_t sample = i % 2 == 0 ? random() % 300 : largest - random() % 300;
    const auto value = static_cast<uint8_t>(random() % 3);
    states[sample] = value;
    expected[sample] = value;
    if (i % 4000 == 0) {
      states.forget(2);
      for (auto& [key, kept] : expected) kept = kept == 2 ? 0 : kept;
    }
  }
  for (const auto& [sample, value] : expected) EXPECT_EQ(uint8_t{states[sample]}, value) << sample;
}

TEST(TierCopies, HaveABitForEachTier) {
  TierCopies copies(100, 3);
  copies.add(7, 0);
  copies.add(7, 2);
  copies.add(8, 2);
  EXPECT_EQ(copies[7], TierCopies::bit(0) | TierCopies::bit(2));
  copies.clear(2);
  EXPECT_EQ(copies[7], TierCopies::bit(0));
  EXPECT_EQ(copies[8], 0);
  copies.remove(7, 0);
  EXPECT_EQ(copies[7], 0);
}

TEST(Fifo, GivesValuesInTheirOrder) {
  Fifo<int> fifo;
  int next_in = 0;
  int next_out = 0;
  for (int round = 1; round < 50; ++round) {
    for (int i = 0; i < round % 7; ++i) fifo.push_back(next_in++);
    for (int i = 0; i < round % 5 && !fifo.empty(); ++i) {
      EXPECT_EQ(fifo.front(), next_out++);
      fifo.pop_front();
    }
    EXPECT_EQ(fifo.end() - fifo.begin(), next_in - next_out);
  }
}

}  // namespace
}  // namespace foreload
