// SPDX-License-Identifier: Apache-2.0
#include "foreload/rows/gatherer.h"

#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cassert>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"

namespace foreload {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{256} << 10;
// Below this a batch is copied by whoever asks for it.
constexpr uint64_t kOwnBytes = uint64_t{32} << 10;
// Batches that are announced after one that had to wait for the disk.
constexpr unsigned kAnnounced = 64;
// Rows of a piece that are copied to see whether others must be waited for.
constexpr uint64_t kTriedRows = 4;

uint64_t clock_nanoseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// Times that this thread had to wait for a page to be read.
long pages_waited_for() {
  rusage usage{};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_majflt;
}

}  // namespace

class RowGatherer::Job {
 public:
  std::vector<int64_t> numbers;
  std::vector<std::byte*> to;
  uint64_t piece_rows = 0;
  uint64_t pieces = 0;
  uint64_t next = 0;              // piece; guarded by mutex_
  uint64_t running = 0;           // pieces; guarded by mutex_
  uint64_t copied = 0;            // pieces; guarded by mutex_
  std::atomic<bool> done{false};  // set once, by whoever copied the last piece
};

RowGatherer::RowGatherer(std::vector<RowColumn> columns, unsigned threads)
    : columns_(std::move(columns)), wanted_threads_(threads) {
  assert(threads >= 1);
  for (const RowColumn& column : columns_) row_bytes_ += column.row_bytes();
}

RowGatherer::~RowGatherer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  more_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Result<std::shared_ptr<RowGatherer::Job>> RowGatherer::submit(std::vector<int64_t> numbers,
                                                              std::vector<std::byte*> to) {
  assert(to.size() == columns_.size());
  uint64_t rows = UINT64_MAX;
  for (const RowColumn& column : columns_) rows = std::min(rows, column.rows());
  // Negative numbers are the largest ones.
  const auto beyond = std::find_if(numbers.begin(), numbers.end(), [&](int64_t number) {
    return static_cast<uint64_t>(number) >= rows;
  });
  if (beyond != numbers.end())
    return fail(ErrorKind::invalid, fmt::format("cannot gather row {}: the data set has rows 0 to "
                                                "{}; check the sampler",
                                                *beyond, static_cast<int64_t>(rows) - 1));
  auto job = std::make_shared<Job>();
  job->piece_rows = std::max<uint64_t>(1, kPieceBytes / std::max<uint64_t>(1, row_bytes_));
  job->pieces = (numbers.size() + job->piece_rows - 1) / job->piece_rows;
  const uint64_t bytes = numbers.size() * row_bytes_;
  job->numbers = std::move(numbers);
  job->to = std::move(to);
  if (job->pieces == 0 || (bytes <= kOwnBytes && cold_jobs_ == 0) || !enqueue(job)) {
    for (uint64_t piece = 0; piece < job->pieces; ++piece) run_piece(*job, piece);
    job->done = true;
  }
  return job;
}

bool RowGatherer::enqueue(const std::shared_ptr<Job>& job) {
  {
    const std::lock_guard lock(mutex_);
    if (threads_.empty()) start();
    if (threads_.empty()) return false;
    if (cold_jobs_ > 0) {
      --cold_jobs_;
      to_advise_.push_back(job);
    }
    to_copy_.push_back(job);
  }
  if (job->pieces > 1)
    more_.notify_all();
  else
    more_.notify_one();
  return true;
}

void RowGatherer::start() {
  for (unsigned number = 0; number < wanted_threads_; ++number) {
    try {
      threads_.push_back(start_own_thread("foreload-rows", [this] { work(); }));
    } catch (const std::system_error&) {
      break;  // fewer do as well, and without any the caller copies
    }
  }
}

void RowGatherer::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    more_.wait(lock, [&] { return ending_ || !to_advise_.empty() || !to_copy_.empty(); });
    if (ending_) return;
    if (!to_advise_.empty()) {
      const std::shared_ptr<Job> job = std::move(to_advise_.front());
      to_advise_.pop_front();
      ++job->running;
      lock.unlock();
      advise(*job, 0, job->numbers.size());
      lock.lock();
      --job->running;
      finished_.notify_all();
      continue;
    }
    const std::shared_ptr<Job> job = to_copy_.front();
    const uint64_t piece = job->next++;
    if (job->next == job->pieces) to_copy_.pop_front();
    ++job->running;
    lock.unlock();
    run_piece(*job, piece);
    lock.lock();
    --job->running;
    if (++job->copied == job->pieces) job->done = true;
    if (job->done || job->running == 0) finished_.notify_all();
  }
}

void RowGatherer::advise(const Job& job, uint64_t first, uint64_t end) const {
  const std::span<const int64_t> numbers(job.numbers.data() + first, end - first);
  for (const RowColumn& column : columns_) column.advise(numbers);
}

void RowGatherer::copy(const Job& job, uint64_t first, uint64_t end) const {
  const std::span<const int64_t> numbers(job.numbers.data() + first, end - first);
  for (size_t i = 0; i < columns_.size(); ++i)
    columns_[i].gather(numbers, job.to[i] + first * columns_[i].row_bytes());
}

void RowGatherer::announce_queue() {
  const std::lock_guard lock(mutex_);
  if (cold_jobs_ == 0) to_advise_ = to_copy_;
  cold_jobs_ = kAnnounced;
}

void RowGatherer::run_piece(Job& job, uint64_t piece) {
  const uint64_t begin = clock_nanoseconds(CLOCK_MONOTONIC);
  const uint64_t cpu_begin = clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  const uint64_t first = piece * job.piece_rows;
  const uint64_t end = std::min<uint64_t>(first + job.piece_rows, job.numbers.size());
  const uint64_t tried = std::min(first + kTriedRows, end);
  const long waited = pages_waited_for();
  copy(job, first, tried);
  if (pages_waited_for() != waited) {
    announce_queue();
    advise(job, tried, end);
  }
  copy(job, tried, end);
  nanoseconds_ += clock_nanoseconds(CLOCK_MONOTONIC) - begin;
  cpu_nanoseconds_ += clock_nanoseconds(CLOCK_THREAD_CPUTIME_ID) - cpu_begin;
}

bool RowGatherer::done(const Job& job) {
  return job.done.load(std::memory_order_acquire);
}

bool RowGatherer::wait(const Job& job, std::optional<Clock::time_point> until) {
  if (done(job)) return true;
  std::unique_lock lock(mutex_);
  const auto ready = [&] { return done(job); };
  if (until) return finished_.wait_until(lock, *until, ready);
  finished_.wait(lock, ready);
  return true;
}

void RowGatherer::drop(Job& job) {
  std::unique_lock lock(mutex_);
  const auto is_it = [&](const std::shared_ptr<Job>& other) { return other.get() == &job; };
  std::erase_if(to_advise_, is_it);
  std::erase_if(to_copy_, is_it);
  finished_.wait(lock, [&] { return job.running == 0; });
}

GatherTimes RowGatherer::times() const {
  return {static_cast<double>(nanoseconds_) * 1e-9, static_cast<double>(cpu_nanoseconds_) * 1e-9};
}

}  // namespace foreload
