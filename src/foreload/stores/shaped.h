// SPDX-License-Identifier: Apache-2.0
//
// Any source made slower and worse, for tests and benchmarks: bandwidth shared by all reads,
// latency per read, faults and stalls. Which reads get them depends on the seed, the object and how
// often it was read before, not on time. The inner source reads at once; its answers are held back
// until the modelled device would have given them.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "foreload/stores/source.h"

namespace foreload {

struct Shape {
  double bytes_per_second = 0;  // of all reads together; 0: no limit
  // Total bandwidth by number of reads in flight, replaces bytes_per_second where given. Reads
  // share it evenly.
  std::function<double(unsigned in_flight)> curve;
  std::chrono::microseconds latency{0};  // added to every read
  unsigned most_in_flight = 0;           // further reads wait; 0: no limit
  double fault_share = 0;                // of reads; answered with `fault`
  Fault fault = Fault::transient;
  double stall_share = 0;  // of reads; they take `stall` longer
  std::chrono::milliseconds stall{0};
  // Whether a given read never comes back: its deadline answers it, and it counts as abandoned and
  // holds its memory until the source is gone. `attempt` is how often the object was read before.
  std::function<bool(uint32_t object, unsigned attempt)> hangs;
  uint64_t seed = 0;
};

// `make_inner` is called once with the callback the inner source must use. Null if it returns null.
std::unique_ptr<Source> shape_source(
    std::function<std::unique_ptr<Source>(Source::Answered)> make_inner, Shape shape,
    Source::Answered answered);

}  // namespace foreload
