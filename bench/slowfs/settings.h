// SPDX-License-Identifier: Apache-2.0
//
// What slowfs makes its requests cost. A setting has one name, which is its option on the command
// line (--open-ms 4) and what is written to the control file while it runs (open-ms=4). The number
// of server threads is what it was when the file system was mounted; what the kernel keeps is told
// to it with each answer, so that changes show there. For one thread; Shape shares settings between
// threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"

namespace foreload::slowfs {

struct Settings {
  uint64_t bandwidth = 0;     // bytes per second of all reads together; 0: no limit
  uint64_t best_streams = 0;  // short for a curve with its top, the bandwidth, there; 0: no curve
  struct Point {
    double streams = 0;  // reads in flight
    double bandwidth = 0;
  };
  std::vector<Point> curve;  // replaces bandwidth where given; streams ascend
  // How much of its past a channel that was idle makes up for. With 0 a lone reader loses the time
  // between its reads, as it does on a real network; parallel readers get the bandwidth exactly.
  double burst_ms = 0;
  double open_ms = 0;
  double read_ms = 0;
  double stat_ms = 0;
  double list_ms = 0;
  double lookup_ms = 0;  // each component of a path that the kernel asks for
  uint64_t server_threads = 1024;
  double name_seconds = 365 * 86400.0;  // how long the kernel may believe that a name exists
  double attr_seconds = 0;              // how long it may keep size and times
  uint64_t page_cache = 0;              // 1: it may keep contents while a file is open
  double stall_share = 0;  // of the reads; they take a time from [stall_low_ms, stall_high_ms] more
  double stall_low_ms = 0;
  double stall_high_ms = 0;
  uint64_t seed = 0;  // which reads stall

  // Bytes per second of all reads together when `streams` are in flight; 0: no limit. Between two
  // points of the curve it is interpolated, beyond its ends it is flat.
  double rate(uint64_t streams) const;
  std::string json() const;
};

struct SettingName {
  const char* name;
  const char* help;
};
const std::vector<SettingName>& setting_names();

// A file system of which nobody has chosen anything: server threads, bandwidth, latencies and what
// the kernel may keep follow from a number.
Settings draw_settings(uint64_t number);

// Sets one setting from text and leaves it as it is on error: `invalid`.
Result<void> change(Settings& settings, std::string_view name, std::string_view value);

}  // namespace foreload::slowfs
