// SPDX-License-Identifier: Apache-2.0
//
// When samples are needed. The loop takes one batch after the other, as fast as it was seen to
// while it did not wait; before that, every sample has to be decoded, after those that are ahead of
// it. What arrives later than that keeps the loop waiting; what arrives earlier gains nothing.
//
// For one thread.
#pragma once

#include <cstdint>

#include "foreload/policy/window.h"

namespace foreload {

class Demand {
 public:
  Demand(const Desk& desk, const BatchWindow& window) : desk_(desk), window_(window) {}

  // The loop has computed a batch that it could have since then.
  void consumed(RunTime since);

  // From now until this place's bytes are needed; 0: the loop waits, or nobody knows how fast it
  // is.
  double seconds(BatchPlace place) const;
  // Seconds that the loop takes for a batch; 0: nobody knows.
  double pace() const { return pace_; }
  // Batches take the loop some of its time. Who only takes one after the other, to see how fast
  // that is, gains nothing that is worth a read of the source.
  bool computes() const;
  // The loop has nothing to go on with.
  bool waits() const { return window_.delivered() == 0; }
  // Or will have, when it has computed what it has.
  bool is_short() const { return window_.delivered() < 2; }

 private:
  double until_loop(uint64_t batch) const;

  const Desk& desk_;
  const BatchWindow& window_;
  double pace_ = 0;        // seconds that the loop takes for a batch
  double round_ = 0;       // and that pass from one to the next
  RunTime last_taken_{0};  // when it began the one it has
};

}  // namespace foreload
