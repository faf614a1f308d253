// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/engine_choice.h"

#include <cmath>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;

// Reads one after the other, each a millisecond after the last, until the choice falls.
class Reading {
 public:
  // Seconds that a read takes on average, and how much that varies.
  Reading(double preferred, double other, double spread = 0.3, uint64_t seed = 1)
      : seconds_{preferred, other}, spread_(spread), seed_(seed) {}

  Candidate choose(milliseconds between = milliseconds(1)) {
    while (true) {
      const Candidate by = choice_.next(now_);
      if (choice_.decided()) return by;
      ++reads_[static_cast<size_t>(by)];
      const double factor = std::exp(spread_ * philox_normal(seed_, number_++, 0)[0]);
      const std::chrono::duration<double> taken(seconds_[static_cast<size_t>(by)] * factor);
      now_ += between;
      choice_.answered(by, std::chrono::duration_cast<SteadyTime::duration>(taken), now_);
    }
  }
  SteadyTime::duration taken() const { return now_ - kStart; }
  unsigned reads(Candidate by) const { return reads_[static_cast<size_t>(by)]; }

 private:
  static constexpr SteadyTime kStart = SteadyTime() + std::chrono::hours(1);
  const double seconds_[2];
  const double spread_;
  const uint64_t seed_;
  uint64_t number_ = 0;
  unsigned reads_[2] = {};
  SteadyTime now_ = kStart;
  EngineChoice choice_;
};

TEST(EngineChoice, TheFasterOneIsChosen) {
  EXPECT_EQ(Reading(0.010, 0.008).choose(), Candidate::other);
  EXPECT_EQ(Reading(0.008, 0.010).choose(), Candidate::preferred);
}

TEST(EngineChoice, OfEqualOnesThePreferredIsChosen) {
  int other = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed)
    other += Reading(0.010, 0.010, 1, seed).choose() == Candidate::other ? 1 : 0;
  EXPECT_LE(other, 2);
}

TEST(EngineChoice, ALittleFasterIsNotEnough) {
  EXPECT_EQ(Reading(0.010, 0.0097, 0.01).choose(), Candidate::preferred);
}

TEST(EngineChoice, AfterHalfASecond) {
  Reading reading(0.010, 0.005);
  reading.choose();
  EXPECT_GE(reading.taken(), EngineChoice::kTrial);
  EXPECT_LE(reading.taken(), EngineChoice::kTrial + milliseconds(5));
}

TEST(EngineChoice, BothReadTheSameNumber) {
  Reading reading(0.010, 0.005);
  reading.choose();
  EXPECT_LE(reading.reads(Candidate::preferred) - reading.reads(Candidate::other), 1);
}

TEST(EngineChoice, FewAnswersDecideNothing) {
  Reading reading(0.4, 0.1);
  EXPECT_EQ(reading.choose(milliseconds(400)), Candidate::preferred);
  EXPECT_GE(reading.taken(), EngineChoice::kLongestTrial);
}

// One read of a second among many of 5 ms.
TEST(EngineChoice, OneStuckReadDoesNotDecide) {
  EngineChoice choice;
  SteadyTime now = SteadyTime() + std::chrono::hours(1);
  for (int i = 0; !choice.decided(); ++i) {
    const Candidate by = choice.next(now);
    now += milliseconds(2);
    choice.answered(by, i == 100 ? milliseconds(1000) : milliseconds(5), now);
  }
  EXPECT_EQ(choice.chosen(), Candidate::preferred);
}

TEST(EngineChoice, WhereNothingIsAnsweredNothingIsDecided) {
  EngineChoice choice;
  choice.next(SteadyTime() + std::chrono::hours(1));
  choice.next(SteadyTime() + std::chrono::hours(2));
  EXPECT_FALSE(choice.decided());
}

}  // namespace
}  // namespace foreload
