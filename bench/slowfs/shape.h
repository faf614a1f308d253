// SPDX-License-Identifier: Apache-2.0
//
// Makes requests take the time that the settings say, and counts them. Any thread may call.
//
// Latencies of different requests pass at the same time; only bytes share something, the channel.
// The channel keeps a clock of its own: a piece of a read starts when both the read is ready and
// the channel is free, and occupies it for bytes / bandwidth. What is compared are these computed
// times, not when a thread happened to wake up, so the long-run bandwidth is exact however late the
// machine's timers are. Reads are cut into pieces that take turns, so a large read does not hold up
// small ones.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "foreload/base/result.h"

#include "settings.h"

namespace foreload::slowfs {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

struct Counters {
  std::atomic<uint64_t> opens{0};
  std::atomic<uint64_t> reads{0};  // also numbers them: the same ones stall after each reset
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<uint64_t> reads_at_end{0};  // found the end of the file; free and not in `reads`
  std::atomic<uint64_t> stats{0};
  std::atomic<uint64_t> lookups{0};        // of names the kernel did not know (any more)
  std::atomic<uint64_t> listings{0};       // folders opened to be listed
  std::atomic<uint64_t> list_requests{0};  // requests for names that were answered with some
  std::atomic<uint64_t> stalls{0};
  std::atomic<uint64_t> in_flight{0};  // reads; not reset
  std::atomic<uint64_t> most_in_flight{0};

  void reset();
};

class Shape {
 public:
  explicit Shape(Settings settings);

  // Each counts a request that arrived at `arrival` and returns when it may be answered.
  void open(Time arrival);
  void stat(Time arrival);
  void list(Time arrival);
  void lookup(Time arrival);
  // `bytes` is what the read will be answered with; 0: it found the end of the file.
  void read(Time arrival, uint64_t bytes);

  // Executes lines of text: "reset" sets the counters to zero, NAME=VALUE changes a setting, the
  // bandwidth also for the rest of reads under way. Stops at the first line it does not understand:
  // `invalid`.
  Result<void> command(std::string_view text);
  Counters& counters() { return counters_; }
  std::string json() const;

  std::shared_ptr<const Settings> settings() const;

 private:
  // The piece of a read of which `left` bytes are missing that starts at `ready` or later.
  struct Piece {
    uint64_t bytes;
    Time end;
  };
  Piece reserve(Time ready, uint64_t left);

  Counters counters_;
  mutable std::mutex settings_lock_;
  std::shared_ptr<const Settings> settings_;
  std::mutex channel_lock_;
  Time channel_free_{};  // when the channel has carried all that was reserved
};

}  // namespace foreload::slowfs
