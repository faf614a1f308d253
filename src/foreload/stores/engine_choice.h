// SPDX-License-Identifier: Apache-2.0
//
// Which of two engines reads from a mount, decided by what the first half second of reading shows.
// Until then reads go to both in turn. So both meet the same files, the same load and the same
// changes of it, and what differs between their times is the engine. The preferred one stays unless
// reads of the other clearly take less: by more than a twentieth, and by more than chance explains.
//
// Times are compared as ratios (by their logarithms), so that one huge or stuck read does not
// decide. Private to stores. Pure: the caller tells the time. For one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>

#include "foreload/stores/source.h"

namespace foreload {

enum class Candidate : uint8_t { preferred, other };

class EngineChoice {
 public:
  static constexpr std::chrono::milliseconds kTrial{500};  // from the first answer
  static constexpr std::chrono::seconds kLongestTrial{3};  // where answers are too few
  static constexpr unsigned kLeastReads = 24;              // of each
  static constexpr double kClearly = 0.95;                 // of the preferred engine's time

  // Where the next read goes.
  Candidate next(SteadyTime now);
  // A read was answered well after so long.
  void answered(Candidate by, SteadyTime::duration taken, SteadyTime now);

  // No more reads are to be shared: the preferred one stays.
  void give_up() { decided_ = true; }

  bool decided() const { return decided_; }
  // REQUIRES: decided.
  Candidate chosen() const { return chosen_; }

 private:
  // Of the logarithms of times.
  struct Times {
    unsigned count = 0;
    double mean = 0;
    double squares = 0;  // of the differences from the mean

    void add(double value);
    double variance_of_mean() const;
  };

  void decide_in_time(SteadyTime now);
  bool other_is_clearly_faster() const;

  Times times_[2];
  SteadyTime first_answer_ = SteadyTime::max();
  Candidate chosen_ = Candidate::preferred;
  Candidate turn_ = Candidate::other;
  bool decided_ = false;
};

}  // namespace foreload
