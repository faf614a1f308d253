// SPDX-License-Identifier: Apache-2.0
//
// How a level of concurrency is measured. Requests are seldom done when the time is up, and with
// many in flight they tend to end together; so each one's bytes are spread over the time it took,
// and what falls into the window counts. Private to the probe.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "foreload/base/result.h"
#include "foreload/loader/probe.h"

namespace foreload::probing {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

inline constexpr std::array<unsigned, 6> kLevels{1, 2, 4, 8, 16, 32};
inline constexpr uint64_t kBlock = 100 * 1024;  // a sample's worth

struct TimeWindow {
  Clock::time_point begin;
  Clock::time_point end;

  // Of `bytes` that took from `first` to `last`, those that fall into the window.
  double share(Clock::time_point first, Clock::time_point last, uint64_t bytes) const {
    const Seconds inside = std::min(last, end) - std::max(first, begin);
    if (inside.count() <= 0) return 0;
    return static_cast<double>(bytes) * (inside / std::max(Seconds(last - first), Seconds(1e-9)));
  }
  double seconds() const { return Seconds(end - begin).count(); }
};

// One request, carried out before it returns. Says how many bytes it brought, or what went wrong.
using Blocking = std::function<Result<uint64_t>(unsigned thread, uint64_t number)>;

// Bytes per second of `threads` threads that each carry out one request after the other for `time`.
// The first fifth of it is not counted. Where nothing was done in that time it takes longer.
// REQUIRES: time is above 0, and requests bring something.
Result<double> blocking_rate(unsigned threads, Seconds time, const Blocking& request);

// The steps of a probe: the time is shared equally among them, and each is told before it begins.
class ProbeSteps {
 public:
  ProbeSteps(const ProbeSettings& settings, const std::string& device, uint64_t steps)
      : settings_(settings), device_(device), steps_(steps) {}
  Seconds share() const { return settings_.time / static_cast<double>(steps_); }
  // Fails with `cancelled` if nobody wants another one.
  Result<void> begin();

 private:
  const ProbeSettings& settings_;
  const std::string& device_;
  const uint64_t steps_;
  uint64_t begun_ = 0;
};

// The folder's own name: absolute, without links.
std::string whole_path(const std::filesystem::path& folder);

// "2026-08-11T14:20:00Z"
std::string now_in_utc();

}  // namespace foreload::probing
