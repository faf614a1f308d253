// SPDX-License-Identifier: Apache-2.0
//
// How many requests may be in flight on one path (a source, a disk), found by measuring throughput.
// More streams make a parallel file system faster, make one disk slower beyond a few, and only add
// queueing where bandwidth is used up; and all of that may change in the middle of a run.
//
// The limiter holds a level for a while, compares the bytes per second with those of neighbouring
// levels, and moves to the smallest level that is as fast as any. Where nothing changes it probes
// less and less often; where throughput leaves what it knew, it starts to look again. It measures
// only while somebody waits for a place, since otherwise the demand is measured, not the path.
//
// Pure and deterministic: no clock, no thread, no randomness.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace foreload {

// Time since the start of a run, real or simulated.
using RunTime = std::chrono::nanoseconds;

class Limiter {
 public:
  struct Settings {
    unsigned least = 1;
    unsigned most = 256;
    unsigned first = 4;  // where to begin, for instance from a saved profile
    // A level is held until it has seen at least this long and this many finished requests per
    // place.
    RunTime shortest_window = std::chrono::milliseconds(50);
    unsigned requests_per_place = 2;
  };

  explicit Limiter(Settings settings);

  unsigned limit() const { return limit_; }
  unsigned in_flight() const { return in_flight_; }
  bool has_room() const { return in_flight_ < limit_; }

  // A request starts. `waiting`: others still wait for a place behind it.
  void start(RunTime now, bool waiting);
  // A request ends, with how many bytes it brought (0 if it failed).
  void finish(RunTime now, uint64_t bytes);
  // The other side asked for fewer requests: halves the level and waits before it probes again.
  void throttled(RunTime now);

  // Bytes per second measured last at the current level; 0 before the first measurement.
  double rate() const { return rate_; }

 private:
  Settings settings_;
  unsigned limit_;
  unsigned in_flight_ = 0;
  double rate_ = 0;
};

}  // namespace foreload
