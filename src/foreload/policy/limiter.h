// SPDX-License-Identifier: Apache-2.0
//
// How many requests may be in flight on one path (a source, a disk), found by measuring throughput.
// More streams make a parallel file system faster, make one disk slower beyond a few, and only add
// queueing where bandwidth is used up; and all of that may change in the middle of a run.
//
// The limiter measures in windows, alternately at the level it has settled on and at a neighbour,
// and moves when the neighbour has won clearly more windows than it lost: up to what is faster,
// down to what is as fast. It begins with leaps and short windows; where results contradict each
// other, windows get longer; where nothing is gained it probes less and less often; where
// throughput leaves what it knew, it begins again. It measures only while somebody waits for a
// place, since otherwise the demand is measured, not the path.
//
// Pure and deterministic: no clock, no thread, no randomness.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace foreload {

// Time since the start of a run, real or simulated.
using RunTime = std::chrono::nanoseconds;

class Limiter {
 public:
  struct Settings {
    unsigned least = 1;
    unsigned most = 256;
    unsigned first = 4;  // where to begin, for instance from a saved profile
    bool tries_fewer = true;
    // A level is held until it has seen at least this long and this many finished requests per
    // place.
    RunTime shortest_window = std::chrono::milliseconds(50);
    unsigned requests_per_place = 2;
  };

  // REQUIRES: 1 <= least <= most. `first` is moved between them.
  explicit Limiter(Settings settings);

  unsigned limit() const { return limit_; }
  unsigned in_flight() const { return in_flight_; }
  bool has_room() const { return in_flight_ < limit_; }

  // A request starts. `waiting`: others still wait for a place behind it.
  void start(RunTime now, bool waiting);
  // A request ends, with how many bytes it brought (0 if it failed).
  void finish(RunTime now, uint64_t bytes);
  // The other side asked for fewer requests: halves the level and waits before it probes again.
  // Many requests in flight may be told so at once: until as many have finished, it counts once.
  void throttled(RunTime now);

  // Bytes per second in the last window at the level it has settled on; 0 before the first window.
  double rate() const { return rate_; }

 private:
  // What finished since `begin`. A window is whole rounds, each of as many requests as there are
  // places: requests that started together tend to finish together.
  struct Window {
    RunTime begin{0};
    uint64_t bytes = 0;
    double work = 0;
    unsigned finished = 0;  // in this round
    unsigned rounds = 0;
  };

  void notice_idle_place(RunTime now);
  void discard_window();
  void hold(unsigned level);
  void end_window(RunTime now, double seconds);
  void judge_settled(double work_rate);
  void judge_candidate(double work_rate);
  void look_again(int direction);
  void probe_neighbour();
  void look_elsewhere();
  unsigned neighbour() const;

  Settings settings_;
  unsigned limit_;
  unsigned in_flight_ = 0;
  double rate_ = 0;

  // Measuring.
  RunTime last_event_{0};
  unsigned ignored_ = 1;   // requests that must finish before the next window begins
  unsigned care_ = 1;      // windows are this many times as long as the settings ask for
  double mean_bytes_ = 0;  // of recent requests
  Window window_;

  // The level settled on; limit_ differs from it only in a candidate's windows. Rates are work per
  // second, 0 if not known.
  unsigned settled_;
  double settled_rate_ = 0;   // in its last window
  double recent_rate_ = 0;    // over its last few
  double expected_rate_ = 0;  // over many

  // Probing: first the second neighbour (a leap), then the first, then the first on the other side.
  bool probing_ = false;
  bool leap_ = true;
  bool turned_ = false;
  int direction_ = 1;
  int lead_ = 0;        // windows won by the candidate less those it lost
  int compared_ = 0;    // windows of the candidate
  unsigned pause_ = 0;  // windows before the next probe
  unsigned next_pause_;

  bool warned_ = false;  // throttled, and the pause that follows is not over
  unsigned echoes_ = 0;  // requests in flight that may be told the same
};

// What one of `ranks` begins with on a path that all of them read from and that serves `best`
// requests at a time best.
unsigned part_of(double best, uint32_t ranks, const Limiter::Settings& limiter);

// Whose best is known: that of the whole path, or only what one of several nodes got, which may be
// the best of its own link.
enum class BestOf : uint8_t { path, node };

// Settings for one of several ranks on such a path. Each would find that more requests of its own
// are faster, take that from the others, and wait for those. So, where the path's best is known,
// everybody begins with its part and is held to it: not below it either, since trying fewer gives
// the others what it takes, and tells nothing. Where it is not known, ranks share the most that one
// may have, down to a few each. Of one rank only the beginning changes.
Limiter::Settings shared_among(uint32_t ranks, std::optional<double> best, BestOf whose,
                               Limiter::Settings alone);

}  // namespace foreload
