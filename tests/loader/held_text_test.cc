// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/held_text.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

constexpr uint64_t kSamples = 1'281'167;
constexpr uint32_t kRank = 7;

// Of `ranks` that share a data set by a hash: what rank 7 has, on tier 1.
std::vector<Held> share_of(uint32_t ranks, uint64_t samples = kSamples) {
  std::vector<Held> held;
  for (uint64_t sample = 0; sample < samples; ++sample)
    if (mix64(sample) % ranks == kRank % ranks) held.push_back({sample, kRank, 1});
  return held;
}

std::vector<std::pair<uint64_t, uint32_t>> sorted(const std::vector<Held>& held) {
  std::vector<std::pair<uint64_t, uint32_t>> entries;
  for (const Held& copy : held) entries.emplace_back(copy.sample, copy.tier);
  std::sort(entries.begin(), entries.end());
  return entries;
}

TEST(HeldText, ComesBack) {
  std::vector<Held> two_tiers = share_of(5, 1000);
  for (uint64_t sample : {uint64_t{3}, uint64_t{4}, uint64_t{999}})
    two_tiers.push_back({sample, kRank, 2});
  std::stable_sort(two_tiers.begin(), two_tiers.end(),
                   [](const Held& a, const Held& b) { return a.sample < b.sample; });
  for (const auto& held : {std::vector<Held>(), share_of(1, 1000), share_of(1000, 1000),
                           std::vector<Held>{{999, kRank, 0}}, two_tiers}) {
    std::vector<Held> back;
    ASSERT_TRUE(read_held_text(held_text(held, 3), kRank, 3, 1000, back));
    EXPECT_EQ(sorted(back), sorted(held));
    for (const Held& copy : back) EXPECT_EQ(copy.rank, kRank);
  }
}

// About log2(ranks) + 1.5 bits a sample, so that 1,024 ranks tell each other of 1.28 million
// samples in 2 MB.
TEST(HeldText, IsSmall) {
  for (const uint32_t ranks : {1u, 4u, 64u, 1024u}) {
    const auto held = share_of(ranks);
    const double bits =
        8.0 * static_cast<double>(held_text(held, 2).size()) / static_cast<double>(held.size());
    EXPECT_LT(bits, std::log2(ranks) + 1.8) << ranks;
  }
}

TEST(HeldText, NonsenseIsRefused) {
  const std::string good = held_text(share_of(5, 1000), 2);
  std::vector<Held> held;
  EXPECT_FALSE(read_held_text("", kRank, 2, 1000, held));
  EXPECT_FALSE(read_held_text(good.substr(0, good.size() / 2), kRank, 2, 1000, held));
  EXPECT_FALSE(read_held_text(good + "more", kRank, 2, 1000, held));
  EXPECT_FALSE(read_held_text(good, kRank, 2, 100, held));  // samples that are not there
  EXPECT_FALSE(read_held_text(std::string(good.size(), '\xff'), kRank, 2, 1000, held));
  // Whatever the bytes, nothing beyond the data set comes out.
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::string text = good;
    for (uint64_t i = 0; i < 4; ++i)
      text[mix64(seed * 4 + i) % text.size()] = static_cast<char>(mix64(seed + i * 7919));
    held.clear();
    if (read_held_text(text, kRank, 2, 1000, held)) {
      for (const Held& copy : held) EXPECT_TRUE(copy.sample < 1000 && copy.tier < 2);
    }
  }
}

}  // namespace
}  // namespace foreload
