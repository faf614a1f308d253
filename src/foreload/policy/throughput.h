// SPDX-License-Identifier: Apache-2.0
//
// What a stream of pieces of work, such as reads or samples to decode, gets done while there is
// any.
//
// For one thread.
#pragma once

#include "foreload/policy/limiter.h"

namespace foreload {

class Throughput {
 public:
  void begin(RunTime now) {
    pass_time(now);
    ++under_way_;
  }
  void end(RunTime now, double amount);
  unsigned under_way() const { return under_way_; }
  // So many were seen that the figures mean something.
  bool known() const { return ended_ >= kEnough; }
  // Seconds for one unit of amount, in the long run; a lower bound if nothing is known yet.
  double seconds_for_one(RunTime now) const;
  // Pieces under way at a time, while there were any.
  double crowd() const { return busy_ > 0 ? crowd_ / busy_ : 1; }

 private:
  static constexpr double kEnough = 8;
  static constexpr double kMemory = 128;  // pieces

  void pass_time(RunTime now);

  unsigned under_way_ = 0;
  RunTime as_of_{0};
  // Sums in which what is long ago counts less.
  double ended_ = 0;
  double amount_ = 0;
  double busy_ = 0;   // seconds in which something was under way
  double crowd_ = 0;  // of them, times how many were
};

}  // namespace foreload
