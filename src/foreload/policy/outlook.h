// SPDX-License-Identifier: Apache-2.0
//
// How long a read would take that lines up now, for each way to a sample: the source, the memory of
// neighbours, each tier of this rank, and peers by the tier on which they keep the sample, since
// all of them share this rank's link. What lines up waits for what is queued and in flight before
// it.
//
// Rates are measured while something is in flight, and begin with what a profile says. Before
// either is known a way counts as fast, but not faster than what it has already failed to be.
//
// Where reading saves traffic nobody asks, and no account is kept: then no read has a way.
//
// For one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "foreload/policy/desk.h"
#include "foreload/policy/throughput.h"

namespace foreload {

class Outlook {
 public:
  explicit Outlook(const Desk& desk);

  // The way that a read from `from` of this sample takes.
  uint32_t way(Origin from, uint64_t sample) const;
  static constexpr uint32_t kSourceWay = 0;
  static constexpr uint8_t kNoWay = UINT8_MAX;
  // Of two times that are about the same nobody knows which is shorter.
  static constexpr double kClearlySooner = 0.95;

  // One more, or one less, is queued for it.
  void line_up(uint32_t way) {
    if (way != kNoWay) ++ways_[way].waiting;
  }
  void leave_line(uint32_t way) {
    if (way != kNoWay) --ways_[way].waiting;
  }
  void clear_lines();
  void begin(uint32_t way) {
    if (way != kNoWay) ways_[way].flow.begin(desk_.now);
  }
  // `took` counts if it brought something.
  void end(uint32_t way, uint64_t bytes, RunTime took);

  // From now until a sample that lines up now would be here. `limit`: reads that may be in flight.
  // REQUIRES, as all that follow: time is to be saved.
  double seconds(uint32_t way, unsigned limit) const;
  // In the long run, with as many in flight as there have been; 0: nobody knows.
  double seconds_for_byte(uint32_t way) const {
    const Way& of = ways_[way];
    return of.flow.known() ? of.flow.seconds_for_one(desk_.now) : of.told;
  }
  // Clearly so, in the long run; not if either is unknown.
  bool is_faster(uint32_t way, uint32_t than) const;
  // Nothing was read from there yet, and no profile knows it.
  bool unknown(uint32_t way) const;
  bool idle(uint32_t way) const {
    return ways_[way].waiting == 0 && ways_[way].flow.under_way() == 0;
  }

 private:
  struct Way {
    Throughput flow;  // bytes
    uint64_t waiting = 0;
    double quickest = 0;  // seconds of a read, of late
    double told = 0;      // seconds for one byte, by the profile; 0: it does not know
  };

  const Desk& desk_;
  const double mean_bytes_;
  std::vector<Way> ways_;
};

}  // namespace foreload
