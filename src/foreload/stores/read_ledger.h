// SPDX-License-Identifier: Apache-2.0
//
// The reads a source owes an answer for. Whatever moves the bytes, a ring, threads or a timer, the
// rules towards the caller are the same and live here: reads start in the order they were given,
// each is answered exactly once, deadlines and cancellations are answered even when the system
// never comes back, and nothing is answered after close(). Private to stores.
//
// A read waits, is started, and is finished when the system is done with it. A started read that is
// answered before that is abandoned: its memory stays held until finish(). All methods may be
// called by any thread; answers are given without a lock held, so that they may submit and cancel.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "foreload/stores/source.h"

namespace foreload {

// A SourceAnswer before it is known whether anybody still waits for it.
struct Outcome {
  Fault fault = Fault::none;
  int error_number = 0;
  std::string what;

  bool good() const { return fault == Fault::none; }
};

class OwedRead {
 public:
  explicit OwedRead(SourceRead read) : read_(std::move(read)) {}

  // The destination is valid from start() to finish().
  const SourceRead& read() const { return read_; }
  bool answered() const { return answered_.load(std::memory_order_acquire); }

 private:
  friend class ReadLedger;

  SourceRead read_;
  uint64_t number_ = 0;  // in order of submission
  std::atomic<bool> answered_ = false;
  bool started_ = false;
  bool abandoned_ = false;
};

class ReadLedger {
 public:
  using Ref = std::shared_ptr<OwedRead>;

  explicit ReadLedger(Source::Answered answered) : answered_(std::move(answered)) {}

  void add(std::span<const SourceRead> reads);
  // The next answer_due() answers it. Unknown ids are ignored.
  void ask_cancel(uint64_t id);
  // The next read to work on, or null.
  Ref start();
  // Undoes start(): the read waits again, at its old place. A read that was answered is finished
  // instead.
  void put_back(const Ref& read);
  // The system is done with the read and its memory. Answers it unless that was done before;
  // returns whether it did.
  bool finish(const Ref& read, Outcome outcome);
  // Answers reads whose deadline has come or that were cancelled. Returns those of them that had
  // been started, which are abandoned from now on.
  std::vector<Ref> answer_due(SteadyTime now);
  // When answer_due() has something to do; SteadyTime::max() if nothing is in sight.
  SteadyTime next_due() const;
  // Answers everything `cancelled`, from the calling thread. No answer is given after it returned.
  // REQUIRES: not called from an answer.
  void close();

  size_t waiting() const { return waiting_count_.load(std::memory_order_relaxed); }
  uint64_t abandoned() const { return abandoned_.load(std::memory_order_relaxed); }

 private:
  void settle(const Ref& read);             // REQUIRES: mutex_ held, read not answered
  void give(uint64_t id, Outcome outcome);  // calls answered_; paired with ++giving_

  const Source::Answered answered_;
  std::atomic<size_t> waiting_count_ = 0;
  std::atomic<uint64_t> abandoned_ = 0;

  mutable std::mutex mutex_;  // guards what follows, and started_ and abandoned_ of every read
  std::condition_variable all_given_;
  std::unordered_map<uint64_t, Ref> owed_;          // not answered
  std::deque<Ref> waiting_;                         // in order of start; may hold answered ones
  std::set<std::pair<SteadyTime, Ref>> deadlines_;  // of owed reads
  std::vector<Ref> cancels_;
  uint64_t numbers_ = 0;
  size_t giving_ = 0;  // answers on their way to the caller
};

}  // namespace foreload
