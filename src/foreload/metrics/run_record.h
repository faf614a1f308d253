// SPDX-License-Identifier: Apache-2.0
//
// The record of a run while it runs: a line for every epoch, and lines for moments in between that
// say how far the loop is, how long it waited and how busy each stage was, so that a page or a
// terminal can show the run without asking it. Moments get rarer the longer a run lasts; the file
// of ten days is some tens of megabytes. docs/formats.md lists what the lines hold.
//
// Counters come in as the JSON that loaders give (epoch_stats(), stats()), so that the program and
// the Python package write the same; any of their keys may be missing. For the loop's thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/metrics/histogram.h"
#include "foreload/metrics/run_file.h"

namespace foreload {

class RunRecord {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // What the record has to be told after a batch.
  enum class Wants : uint8_t { nothing, epoch, epoch_and_stats };

  // The run begins. `header` as for RunFile::create(), which says how it fails; without a file the
  // last lines are only kept here. The time at which it began and the process are added to the
  // header.
  static Result<RunRecord> create(const std::filesystem::path& file, std::string_view header,
                                  Time now);
  RunRecord(RunRecord&&) noexcept;
  RunRecord& operator=(RunRecord&&) noexcept;
  ~RunRecord();

  // The loop asks for the first of so many batches (0: nobody knows). `stats` is of the whole run.
  void begin_epoch(uint64_t epoch, uint64_t batches, std::string_view stats, Time now);
  // The loop has a batch, for which it waited.
  Wants batch(std::chrono::nanoseconds waited, uint64_t samples, Time now);
  // What batch() wanted; `stats` may be empty where it wanted less. Fails as RunFile::append()
  // does, and writes no more after that; the run should go on.
  Result<void> tell(std::string_view epoch, std::string_view stats, Time now);
  // A moment, due or not.
  Result<void> moment(std::string_view epoch, std::string_view stats, Time now);
  Result<void> end_epoch(std::string_view epoch, std::string_view stats, Time now);
  // The run is over, and nothing is written after that. Does nothing in a process that was forked.
  Result<void> close(Time now);

  // Header and lines as a run file has them: the last epochs, and moments of the whole run with
  // more time between them the more there are.
  std::string text() const;

 private:
  struct Counters;  // of the run at one time

  RunRecord();
  double seconds(Time now) const;
  double interval(Time now) const;
  Result<void> write(std::string line, bool sync);

  std::optional<RunFile> file_;
  std::string header_;
  std::deque<std::string> epochs_;
  std::vector<std::string> moments_;
  uint64_t keep_every_ = 1;  // of the moments, for text()
  uint64_t seen_moments_ = 0;

  pid_t process_ = 0;
  Time begin_;
  Time last_line_;
  Time last_point_;  // of the curve
  bool point_due_ = false;
  uint64_t epoch_ = 0;
  uint64_t batches_ = 0;
  uint64_t received_ = 0;
  uint64_t samples_ = 0;  // of the epoch, counted by batch()
  Time epoch_begin_;
  std::chrono::nanoseconds waited_{0};  // since the last line
  DurationHistogram waits_;             // of the epoch
  std::string curve_;                   // of the epoch, as JSON without brackets
  std::unique_ptr<Counters> at_line_;   // at the last line
  std::unique_ptr<Counters> at_begin_;  // of the epoch
};

}  // namespace foreload
