// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/arena_room.h"

#include <algorithm>
#include <map>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

using UnitRun = ArenaRoom::Run;

uint64_t sum_of(const std::vector<UnitRun>& runs) {
  uint64_t sum = 0;
  for (const UnitRun& run : runs) sum += run.count;
  return sum;
}

TEST(ArenaRoomTest, AllOfItCanBeHadInPieces) {
  std::vector<std::byte> arena(64 * 100);
  ArenaRoom room(arena.data(), 64, 100);
  std::vector<std::vector<UnitRun>> taken(100);
  for (auto& runs : taken) ASSERT_TRUE(room.take(1, runs));
  std::vector<UnitRun> more;
  EXPECT_FALSE(room.take(1, more));
  for (size_t i = 0; i < 100; i += 2) room.give_back(taken[i].front());
  EXPECT_EQ(room.free_units(), 50u);
  EXPECT_FALSE(room.take(51, more));
  ASSERT_TRUE(room.take(50, more));
  EXPECT_EQ(more.size(), 50u) << "no two of them are neighbours";
  for (const UnitRun run : more) room.give_back(run);
  for (size_t i = 1; i < 100; i += 2) room.give_back(taken[i].front());
  more.clear();
  ASSERT_TRUE(room.take(100, more));
  EXPECT_EQ(more.size(), 1u) << "neighbours were put together";
}

TEST(ArenaRoomTest, NothingIsFreeInAnEmptyArena) {
  ArenaRoom room(nullptr, 64, 0);
  std::vector<UnitRun> runs;
  EXPECT_FALSE(room.take(1, runs));
  EXPECT_TRUE(room.take(0, runs));
  EXPECT_TRUE(runs.empty());
}

// Random sizes: no unit is given twice, and none is lost.
TEST(ArenaRoomTest, KeepsCountUnderChurn) {
  constexpr uint32_t kUnits = 5000;
  std::vector<std::byte> arena(64 * kUnits);
  ArenaRoom room(arena.data(), 64, kUnits);
  std::vector<bool> used(kUnits);
  std::map<uint64_t, std::vector<UnitRun>> held;
  uint64_t in_use = 0;
  for (uint64_t step = 0; step < 20'000; ++step) {
    const uint64_t random = mix64(step + 1);
    const auto units = static_cast<uint32_t>(random % 3 == 0 ? random / 8 % 900 : random / 8 % 20);
    std::vector<UnitRun> runs;
    const bool fits = units <= kUnits - in_use;
    ASSERT_EQ(room.take(units, runs), fits) << step;
    ASSERT_EQ(sum_of(runs), fits ? units : 0);
    for (const UnitRun& run : runs) {
      std::fill_n(arena.begin() + run.first * 64, run.count * 64, std::byte{0xff});
      for (uint32_t i = run.first; i < run.first + run.count; ++i) {
        ASSERT_FALSE(used[i]) << "unit " << i << " twice, in step " << step;
        used[i] = true;
      }
    }
    if (fits) {
      held[step] = runs;
      in_use += units;
    }
    while (!fits && in_use > kUnits / 2) {
      auto victim = held.lower_bound(mix64(in_use + step) % step);
      if (victim == held.end()) victim = held.begin();
      for (const UnitRun& run : victim->second) {
        std::fill_n(used.begin() + run.first, run.count, false);
        room.give_back(run);
      }
      in_use -= sum_of(victim->second);
      held.erase(victim);
    }
    ASSERT_EQ(room.free_units(), kUnits - in_use);
  }
}

}  // namespace
}  // namespace foreload
