// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/agenda.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace foreload::sim {
namespace {

TEST(Agenda, WakesInOrderOfTimeAndMovesTheClock) {
  Agenda agenda;
  const uint32_t a = agenda.add();
  const uint32_t b = agenda.add();
  const uint32_t c = agenda.add();
  agenda.set(a, 3);
  agenda.set(b, 1);
  agenda.set(c, 2);
  EXPECT_EQ(agenda.next(), b);
  EXPECT_EQ(agenda.now(), 1);
  EXPECT_EQ(agenda.next(), c);
  EXPECT_EQ(agenda.next(), a);
  EXPECT_EQ(agenda.now(), 3);
  EXPECT_TRUE(agenda.empty());
}

TEST(Agenda, WakesEqualTimesInTheOrderInWhichTheyWereSet) {
  Agenda agenda;
  const uint32_t a = agenda.add();
  const uint32_t b = agenda.add();
  agenda.set(b, 1);
  agenda.set(a, 1);
  EXPECT_EQ(agenda.next(), b);
  EXPECT_EQ(agenda.next(), a);
}

TEST(Agenda, TakesATimeThatHasPassedAsNow) {
  Agenda agenda;
  const uint32_t a = agenda.add();
  agenda.set(a, 5);
  agenda.next();
  agenda.set(a, 2);
  agenda.next();
  EXPECT_EQ(agenda.now(), 5);
}

TEST(Agenda, GivesRemovedSlotsAgain) {
  Agenda agenda;
  const uint32_t a = agenda.add();
  agenda.remove(a);
  EXPECT_EQ(agenda.add(), a);
}

TEST(Agenda, AgreesWithALinearSearch) {
  std::mt19937_64 random(1);
  Agenda agenda;
  std::vector<Time> times;
  for (int i = 0; i < 40; ++i) {
    agenda.add();
    times.push_back(kNever);
  }
  for (int step = 0; step < 20'000; ++step) {
    const auto slot = static_cast<uint32_t>(random() % times.size());
    if (random() % 3 != 0) {
      times[slot] =
          random() % 8 == 0 ? kNever : agenda.now() + static_cast<double>(random() % 1000);
      agenda.set(slot, times[slot]);
    } else if (!agenda.empty()) {
      const Time least = *std::ranges::min_element(times);
      const uint32_t woken = agenda.next();
      ASSERT_EQ(times[woken], least);
      ASSERT_EQ(agenda.now(), least);
      times[woken] = kNever;
    }
  }
}

}  // namespace
}  // namespace foreload::sim
