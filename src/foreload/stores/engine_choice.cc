// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/engine_choice.h"

#include <algorithm>
#include <cmath>

namespace foreload {
namespace {

constexpr double kStandardErrors = 3;

}  // namespace

void EngineChoice::Times::add(double value) {
  ++count;
  const double difference = value - mean;
  mean += difference / count;
  squares += difference * (value - mean);
}

// REQUIRES: two values at least.
double EngineChoice::Times::variance_of_mean() const {
  return squares / (count - 1) / count;
}

Candidate EngineChoice::next(SteadyTime now) {
  decide_in_time(now);
  if (decided_) return chosen_;
  turn_ = turn_ == Candidate::preferred ? Candidate::other : Candidate::preferred;
  return turn_;
}

void EngineChoice::answered(Candidate by, SteadyTime::duration taken, SteadyTime now) {
  if (decided_) return;
  first_answer_ = std::min(first_answer_, now);
  const double seconds = std::chrono::duration<double>(taken).count();
  times_[static_cast<size_t>(by)].add(std::log(std::max(seconds, 1e-9)));
  decide_in_time(now);
}

void EngineChoice::decide_in_time(SteadyTime now) {
  if (decided_ || now < first_answer_ || now - first_answer_ < kTrial) return;
  const bool enough = std::min(times_[0].count, times_[1].count) >= kLeastReads;
  if (!enough && now - first_answer_ < kLongestTrial) return;
  decided_ = true;
  if (enough && other_is_clearly_faster()) chosen_ = Candidate::other;
}

bool EngineChoice::other_is_clearly_faster() const {
  const auto& [preferred, other] = times_;
  const double difference = other.mean - preferred.mean;
  const double chance = std::sqrt(preferred.variance_of_mean() + other.variance_of_mean());
  return difference < std::log(kClearly) && difference < -kStandardErrors * chance;
}

}  // namespace foreload
