// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/keeping.h"

#include <gtest/gtest.h>

#include "alone.h"

namespace foreload {
namespace {

TEST(Copies, KnowTheFastestTierAndForgetALostOne) {
  Alone parts(plan_of(job_of(1, 1000, 1000), *Sizes::uniform(10, 100)));
  EXPECT_FALSE(parts.copies.has(7));
  parts.copies.add(7, 1);
  EXPECT_EQ(parts.copies.fastest(7), 1u);
  parts.copies.add(7, 0);
  EXPECT_EQ(parts.copies.fastest(7), 0u);
  parts.copies.lose_tier(0, 10);
  EXPECT_EQ(parts.copies.tiers_of(7), 2u);
  EXPECT_FALSE(parts.copies.alive(0));
}

TEST(Copies, OnlyWhatArrivesIsForgotten) {
  Alone parts(plan_of_peers(2), among_peers());
  parts.copies.set(1, OnItsWay::arriving);
  parts.copies.set(2, OnItsWay::placing);
  parts.copies.mark(1, Past::seen);
  parts.copies.forget_arriving();
  EXPECT_EQ(parts.copies.on_its_way(1), OnItsWay::no);
  EXPECT_EQ(parts.copies.on_its_way(2), OnItsWay::placing);
  EXPECT_TRUE(parts.copies.is(1, Past::seen));
  EXPECT_FALSE(parts.copies.is(1, Past::came));
}

TEST(Eviction, EveryRuleEvictsWhatMayGoUntilThereIsRoom) {
  for (const EvictionRule& rule : eviction_rules()) {
    const auto eviction = rule.make(2);
    std::set<uint64_t> there{1, 4, 5, 8};
    size_t goal = 2;
    const CrowdedTier tier{1,
                           10,
                           [&] { return there.size() > goal; },
                           [&](uint64_t sample) { return there.contains(sample) && sample != 4; },
                           [](uint64_t) { return 100; },
                           [&](uint64_t sample) { EXPECT_EQ(there.erase(sample), 1u); }};
    eviction->make_room(tier);
    EXPECT_EQ(there.size(), 2u) << rule.name;
    goal = 0;
    eviction->make_room(tier);
    EXPECT_EQ(there, std::set<uint64_t>{4}) << rule.name;
  }
}

TEST(Eviction, TheLargestGoFirstAndOfEqualsTheLater) {
  const std::vector<uint64_t> bytes{10, 30, 20, 30, 5};
  std::vector<uint64_t> gone;
  const auto eviction = make_eviction("largest first", 1);
  eviction->make_room({0, bytes.size(), [&] { return gone.size() < 4; },
                       [](uint64_t sample) { return sample != 2; },
                       [&](uint64_t sample) { return bytes[sample]; },
                       [&](uint64_t sample) { gone.push_back(sample); }});
  EXPECT_EQ(gone, (std::vector<uint64_t>{3, 1, 0, 4}));
}

TEST(Keeping, KeepsWhatItOwnsWhileTheTierLives) {
  Alone parts(plan_of(job_of(1, 2000), *Sizes::uniform(10, 100)));
  EXPECT_EQ(parts.keeping.tier_of(3), 0u);
  parts.keeping.place(3, 0);
  EXPECT_TRUE(parts.keeping.placed({3, 0, true}));
  EXPECT_TRUE(parts.copies.has(3, 0));
  parts.keeping.lose_tier(0);
  EXPECT_EQ(parts.keeping.tier_of(3), kNoTier);
  EXPECT_FALSE(parts.copies.has(3));
}

TEST(Keeping, ThrowsOutWhatMayBeLeftOfABadCopy) {
  Alone parts(plan_of(job_of(1, 2000), *Sizes::uniform(10, 100)));
  parts.copies.add(3, 0);
  parts.keeping.drop(3, 0, /*missing=*/true);
  EXPECT_TRUE(parts.take<action::Evict>().empty());
  parts.copies.add(3, 0);
  parts.keeping.drop(3, 0, /*missing=*/false);
  EXPECT_EQ(parts.take<action::Evict>().size(), 1u);
  EXPECT_FALSE(parts.copies.has(3));
}

TEST(Keeping, CountsBytesOnTheirWayToADisk) {
  Alone parts(plan_of(job_of(1, 0, 2000), *Sizes::uniform(10, 100)));
  parts.keeping.place(3, 1);
  EXPECT_EQ(parts.keeping.placing_bytes(), 100u);
  parts.keeping.placed({3, 1, false});
  EXPECT_EQ(parts.keeping.placing_bytes(), 0u);
  EXPECT_FALSE(parts.copies.has(3));
}

TEST(Keeping, AdoptsWhatTheDeadOwnedAsFarAsThereIsRoom) {
  Alone parts(plan_of_peers(2), among_peers());
  const uint64_t sample = parts.sample_of(1);
  EXPECT_EQ(parts.keeping.tier_of(sample), kNoTier);
  parts.lives.lose(1, false);
  ASSERT_EQ(parts.keeping.tier_of(sample), 0u);
  parts.keeping.adopt(sample, 0);
  parts.keeping.place(sample, 0);
  EXPECT_EQ(parts.desk.totals.adopted, 1u);
  parts.keeping.placed({sample, 0, false});
  EXPECT_EQ(parts.desk.totals.adopted, 0u);
}

}  // namespace
}  // namespace foreload
