// SPDX-License-Identifier: Apache-2.0
//
// What happened when, as a file that chrome://tracing and Perfetto open. Off unless asked for;
// spans and values are kept in memory, the oldest dropped beyond a limit, and written by save().
// Any thread may record.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <mutex>

#include "foreload/base/result.h"

namespace foreload {

class Trace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // REQUIRES: most_events >= 1.
  explicit Trace(size_t most_events = 1'000'000) : most_events_(most_events) {}

  // A span on a track ("source", "disk", "loop"). `track` and `name` must outlive the trace
  // (literals); `detail` is a number worth seeing, the sample or batch. Overlapping spans of one
  // track are shown as lanes.
  void span(const char* track, const char* name, Time begin, Time end, uint64_t detail);
  // A value over time, like the number of reads in flight.
  void value(const char* name, Time when, double value);

  // Fails with `unreadable`. Replaces the file only as a whole.
  Result<void> save(const std::filesystem::path& file) const;

 private:
  struct Event {
    const char* track;  // null: a value
    const char* name;
    Time begin;
    Time end;
    uint64_t detail;
    double value;
  };
  void add(Event event);

  const size_t most_events_;
  mutable std::mutex mutex_;  // guards the rest
  std::deque<Event> events_;
};

}  // namespace foreload
