// SPDX-License-Identifier: Apache-2.0
//
// How busy one stage of the way of a sample was: a source, a tier, the threads that copy and
// decode. Told whenever what is in flight or waits may have changed; adds up over time. For one
// thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace foreload {

struct StageTotals {
  double busy_seconds = 0;       // something was in flight
  double waiting_seconds = 0;    // nothing was: the stage waited for work
  double in_flight_seconds = 0;  // of all that was in flight, added up
  double queued_seconds = 0;     // of all that waited for the stage, added up
  uint64_t most_in_flight = 0;
  uint64_t most_queued = 0;

  double mean_in_flight() const { return share(in_flight_seconds); }
  double mean_queued() const { return share(queued_seconds); }

 private:
  double share(double seconds) const {
    const double all = busy_seconds + waiting_seconds;
    return all > 0 ? seconds / all : 0;
  }
};

class StageLoad {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit StageLoad(Time begin) : since_(begin) {}

  // Time never goes back.
  void set(Time now, uint64_t in_flight, uint64_t queued) {
    const double seconds = std::chrono::duration<double>(now - since_).count();
    (in_flight_ > 0 ? totals_.busy_seconds : totals_.waiting_seconds) += seconds;
    totals_.in_flight_seconds += seconds * static_cast<double>(in_flight_);
    totals_.queued_seconds += seconds * static_cast<double>(queued_);
    since_ = now;
    in_flight_ = in_flight;
    queued_ = queued;
    totals_.most_in_flight = std::max(totals_.most_in_flight, in_flight);
    totals_.most_queued = std::max(totals_.most_queued, queued);
  }
  // Up to the last set().
  const StageTotals& totals() const { return totals_; }

 private:
  Time since_;
  uint64_t in_flight_ = 0;
  uint64_t queued_ = 0;
  StageTotals totals_;
};

}  // namespace foreload
