// SPDX-License-Identifier: Apache-2.0
//
// What is the memory tier's own; the rest is in tier_conformance.h.
#include "foreload/tiers/memory_copies.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "borrower.h"

namespace foreload {
namespace {

TEST(MemoryCopiesTest, RefusesABudgetBeyondTheLimit) {
  const auto copies = MemoryCopies::create({uint64_t{1} << 50});
  ASSERT_FALSE(copies);
  EXPECT_EQ(copies.error().kind, ErrorKind::invalid);
  EXPECT_NE(copies.error().message.find("cannot use a memory budget of 1"), std::string::npos);
  EXPECT_NE(copies.error().message.find("lower the memory budget"), std::string::npos);
}

TEST(MemoryCopiesTest, MayHoldNothing) {
  const auto copies = MemoryCopies::create({0});
  ASSERT_TRUE(copies) << copies.error().message;
  EXPECT_EQ((*copies)->capacity(1000), 0u);
  EXPECT_FALSE((*copies)->put(key_of(1), bytes_of(key_of(1), 1), 0, 1));
}

// Whatever sizes they have, and however they are rounded.
TEST(MemoryCopiesTest, CopiesThatAddUpToTheBudgetFit) {
  constexpr uint64_t kCopies = 1000;
  uint64_t total = 0;
  const auto size_of = [](uint64_t number) { return number % 3 == 0 ? 1 : mix64(number) % 500; };
  for (uint64_t number = 0; number < kCopies; ++number) total += size_of(number);
  const auto copies = MemoryCopies::create({total, false, total / kCopies, kCopies});
  ASSERT_TRUE(copies);
  EXPECT_EQ((*copies)->capacity(total / kCopies), total);
  for (uint64_t number = 0; number < kCopies; ++number)
    EXPECT_TRUE((*copies)->put(key_of(number), bytes_of(key_of(number), size_of(number)), 0, 1));
  EXPECT_EQ((*copies)->payload(), total);
  EXPECT_FALSE((*copies)->put(key_of(kCopies), bytes_of(key_of(kCopies), 1), 0, 1));
}

TEST(MemoryCopiesTest, SaysWhatFindingCopiesCosts) {
  const auto copies = MemoryCopies::create({1 << 20, false, 1000});
  ASSERT_TRUE(copies);
  const uint64_t before = (*copies)->overhead();
  for (uint64_t number = 0; number < 1000; ++number)
    ASSERT_TRUE((*copies)->put(key_of(number), bytes_of(key_of(number), 1000), 0, 1));
  EXPECT_GE((*copies)->overhead() - before, 1000u * 64);
  EXPECT_LE((*copies)->overhead() - before, 1000u * 128);
}

// At least 97 % of the budget, however sizes change, and without falling to pieces.
TEST(MemoryCopiesTest, UsesItsBudgetAfterHeavyChurn) {
  constexpr uint64_t kBudget = uint64_t{32} << 20;
  const auto copies = MemoryCopies::create({kBudget});
  ASSERT_TRUE(copies);
  std::map<uint64_t, uint64_t> sizes;
  const Bytes bytes(1 << 20);
  uint64_t next = 0;
  size_t runs = 0;
  for (const uint64_t mean : {16'384u, 100'000u, 16'384u, 40'000u, 16'384u}) {
    EXPECT_GE((*copies)->capacity(mean), kBudget / 100 * 97);
    for (uint64_t step = 0; step < 5000; ++step) {
      const uint64_t size = 1 + mix64(++next) % (2 * mean);
      while (!(*copies)->put(key_of(next), std::span(bytes).first(size), 0, 1)) {
        ASSERT_GE((*copies)->payload() + size, kBudget / 100 * 97) << "full too early";
        auto victim = sizes.lower_bound(mix64(next + sizes.size()) % next);
        if (victim == sizes.end()) victim = sizes.begin();
        (*copies)->drop(key_of(victim->first));
        sizes.erase(victim);
      }
      sizes[next] = size;
    }
    runs = 0;
    for (const auto& [number, size] : sizes) runs += (*copies)->runs(key_of(number));
    RecordProperty("runs_per_100_copies_" + std::to_string(mean),
                   static_cast<int>(runs * 100 / sizes.size()));
  }
  EXPECT_LE(runs, sizes.size() * 8);
  EXPECT_LE((*copies)->overhead(), kBudget / 50);
}

}  // namespace
}  // namespace foreload
