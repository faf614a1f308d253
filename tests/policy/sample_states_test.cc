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

TEST(SampleBits, TakeMemoryForSamplesThatWereTouched) {
  constexpr uint64_t kBillion = 1'000'000'000;
  SampleBits bits(kBillion, 5);
  const uint64_t before = bits.bytes();
  EXPECT_LT(before, kBillion / 64);
  for (uint64_t sample = 0; sample < kBillion; sample += kBillion / 1000) {
    bits.reset(sample, 1);
    EXPECT_EQ(bits[sample], 0u);
  }
  EXPECT_EQ(bits.bytes(), before);
  for (uint64_t sample = 0; sample < kBillion; sample += kBillion / 1000) bits.set(sample, 3);
  EXPECT_TRUE(bits.test(kBillion / 2, 3));
  EXPECT_LE(bits.bytes(), before + 1000 * 512);
}

TEST(SampleBits, KeepWhatVectorsOfBoolKeep) {
  for (const uint32_t width : {1u, 3u, 7u, 20u}) {
    std::mt19937_64 random(width);
    SampleBits bits(100, width);
    std::vector<std::vector<bool>> expected(100, std::vector<bool>(width));
    for (int i = 0; i < 5000; ++i) {
      const uint64_t sample = random() % 100;
      const auto bit = static_cast<uint32_t>(random() % width);
      expected[sample][bit] = random() % 2 == 0;
      expected[sample][bit] ? bits.set(sample, bit) : bits.reset(sample, bit);
    }
    for (uint64_t sample = 0; sample < 100; ++sample) {
      uint32_t row = 0;
      for (uint32_t bit = 0; bit < width; ++bit) {
        EXPECT_EQ(bits.test(sample, bit), expected[sample][bit]);
        row |= expected[sample][bit] ? 1u << bit : 0;
      }
      EXPECT_EQ(bits[sample], row);
    }
  }
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
