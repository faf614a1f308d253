// SPDX-License-Identifier: Apache-2.0
//
// Threads that gather rows of several columns into batches, ahead of whoever needs them. A large
// batch is cut into pieces that several threads copy; a small one is copied by the thread that asks
// for it, because waking another one takes longer.
//
// Columns may lie in mapped files. Nobody knows whether their pages are in memory, and asking for
// each row costs more than copying it. So threads count what they waited for: once a copy had to
// wait for the disk, all rows that were asked for, and those of the next batches, are announced to
// the system before any other is copied. Then they are read at the same time, and nothing around
// them is read.
//
// Jobs are begun in the order in which they were asked for. All functions may be called by any
// thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/rows/column.h"

namespace foreload {

// What gathering took so far, of all threads together.
struct GatherTimes {
  double seconds = 0;
  double cpu_seconds = 0;
};

class RowGatherer {
 public:
  using Clock = std::chrono::steady_clock;
  class Job;

  // `threads` are started when they are needed first. REQUIRES: threads >= 1; the memory of the
  // columns outlives the RowGatherer.
  RowGatherer(std::vector<RowColumn> columns, unsigned threads);
  // Ends the threads. What was not gathered then will not be.
  ~RowGatherer();
  RowGatherer(const RowGatherer&) = delete;
  RowGatherer& operator=(const RowGatherer&) = delete;

  // Begins to copy rows `numbers` of each column to the column's place in `to`. Fails with
  // `invalid` if a column has no such row. REQUIRES: to.size() is the number of columns; each place
  // has room for the rows until the job is done or dropped.
  Result<std::shared_ptr<Job>> submit(std::vector<int64_t> numbers, std::vector<std::byte*> to);
  // Whether all rows are where they belong.
  static bool done(const Job& job);
  // Waits until it is done, or until then; says whether it is done.
  bool wait(const Job& job, std::optional<Clock::time_point> until = std::nullopt);
  // Nothing is written to its places any more when this returns.
  void drop(Job& job);
  GatherTimes times() const;

 private:
  // False if there are no threads.
  bool enqueue(const std::shared_ptr<Job>& job);
  void start();
  void work();
  // Rows from the first one to before the end, of all columns.
  void advise(const Job& job, uint64_t first, uint64_t end) const;
  void copy(const Job& job, uint64_t first, uint64_t end) const;
  // The pages of rows must be waited for: announce all that were asked for.
  void announce_queue();
  void run_piece(Job& job, uint64_t piece);

  const std::vector<RowColumn> columns_;
  uint64_t row_bytes_ = 0;  // of all columns together
  const unsigned wanted_threads_;

  std::mutex mutex_;
  std::condition_variable more_;      // to do
  std::condition_variable finished_;  // a piece, of a job that is done or dropped now
  std::deque<std::shared_ptr<Job>> to_advise_;
  std::deque<std::shared_ptr<Job>> to_copy_;  // jobs with pieces that nobody has begun
  bool ending_ = false;
  std::vector<std::thread> threads_;

  std::atomic<unsigned> cold_jobs_{0};  // that are announced from now on
  std::atomic<uint64_t> nanoseconds_{0};
  std::atomic<uint64_t> cpu_nanoseconds_{0};
};

}  // namespace foreload
