// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/shaped.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"
#include "foreload/base/random.h"
#include "foreload/stores/fair_share.h"
#include "foreload/stores/read_ledger.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kUnlimited = 1e15;  // bytes per second

// The model of a device and a thread that lives in its time. Everything below mutex_ is shared with
// callers and the inner source; all else is the thread's own.
class ShapedSource final : public Source {
 public:
  ShapedSource(const std::function<std::unique_ptr<Source>(Answered)>& make_inner, Shape shape,
               Answered answered)
      : shape_(std::move(shape)),
        ledger_(std::move(answered)),
        inner_(make_inner([this](SourceAnswer answer) { hear(std::move(answer)); })) {
    if (inner_) thread_ = start_own_thread("foreload-shape", [this] { run(); });
  }
  ~ShapedSource() override {
    {
      const std::scoped_lock lock(mutex_);
      stopping_ = true;
      changed_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    ledger_.close();
    inner_.reset();  // while everything its last answers need is still there
  }
  ShapedSource(const ShapedSource&) = delete;
  ShapedSource& operator=(const ShapedSource&) = delete;

  bool has_inner() const { return inner_ != nullptr; }

  void submit(std::span<const SourceRead> reads) override {
    ledger_.add(reads);
    notify();
  }
  void cancel(uint64_t id) override {
    ledger_.ask_cancel(id);
    notify();
  }
  uint64_t abandoned() const override { return ledger_.abandoned() + inner_->abandoned(); }
  std::string describe() const override { return fmt::format("{}, shaped", inner_->describe()); }

 private:
  enum class Phase : uint8_t { latency, transfer, inner, hung };

  struct Flight {
    ReadLedger::Ref owed;
    Phase phase = Phase::latency;
    SteadyTime latency_end;
    bool made_up_fault = false;
    bool inner_done = false;
    Outcome outcome;  // once the inner source is done
  };
  using Flights = std::map<uint64_t, Flight>;

  void notify() {
    const std::scoped_lock lock(mutex_);
    news_ = true;
    changed_.notify_one();
  }
  void hear(SourceAnswer answer) {
    const std::scoped_lock lock(mutex_);
    heard_.push_back(std::move(answer));
    changed_.notify_one();
  }

  void run();
  std::vector<uint64_t> note(std::vector<SourceAnswer> answers);
  void live_until(SteadyTime now);
  void abandon(const OwedRead* owed);
  void start_reads(SteadyTime now);
  void start(ReadLedger::Ref owed, SteadyTime now);
  void end_latency(uint64_t key);
  void complete(Flights::iterator flight);
  void leave_device(uint64_t key, const Flight& flight);
  void set_bandwidth();

  const Shape shape_;
  ReadLedger ledger_;

  Flights flights_;
  // Answered, but the inner source has not said that it is done.
  std::unordered_map<uint64_t, ReadLedger::Ref> left_with_inner_;
  std::vector<ReadLedger::Ref> left_hung_;
  std::set<std::pair<SteadyTime, uint64_t>> latencies_;
  FairShare share_;
  std::unordered_map<uint32_t, unsigned> attempts_;
  std::vector<SourceRead> to_inner_;
  uint64_t next_key_ = 0;  // ids towards the inner source, because the caller may reuse its own

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<SourceAnswer> heard_;
  bool news_ = false;
  bool stopping_ = false;

  std::unique_ptr<Source> inner_;
  std::thread thread_;
};

void ShapedSource::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    news_ = false;
    std::vector<SourceAnswer> heard = std::exchange(heard_, {});
    lock.unlock();
    const std::vector<uint64_t> answered = note(std::move(heard));
    const SteadyTime now = Clock::now();
    live_until(now);
    for (const uint64_t key : answered) {
      const auto flight = flights_.find(key);
      if (flight == flights_.end()) continue;
      if (flight->second.phase == Phase::inner || !flight->second.outcome.good()) complete(flight);
    }
    for (const ReadLedger::Ref& owed : ledger_.answer_due(now)) abandon(owed.get());
    start_reads(now);
    if (!to_inner_.empty()) inner_->submit(std::exchange(to_inner_, {}));
    SteadyTime next = std::min(share_.next_end(), ledger_.next_due());
    if (!latencies_.empty()) next = std::min(next, latencies_.begin()->first);
    lock.lock();
    const auto due = [this] { return stopping_ || news_ || !heard_.empty(); };
    if (next == SteadyTime::max()) {
      changed_.wait(lock, due);
    } else {
      changed_.wait_until(lock, next, due);
    }
  }
}

// Writes down what the inner source said; returns the flights it said it about.
std::vector<uint64_t> ShapedSource::note(std::vector<SourceAnswer> answers) {
  std::vector<uint64_t> about;
  for (SourceAnswer& answer : answers) {
    if (const auto flight = flights_.find(answer.id); flight != flights_.end()) {
      flight->second.inner_done = true;
      flight->second.outcome = {answer.fault, answer.error_number, std::move(answer.what)};
      about.push_back(answer.id);
    } else if (const auto left = left_with_inner_.find(answer.id); left != left_with_inner_.end()) {
      ledger_.finish(left->second, {});
      left_with_inner_.erase(left);
    }
  }
  return about;
}

// What the device would have done up to now, one thing after the other. Waking up late moves
// answers, but not the modelled times.
void ShapedSource::live_until(SteadyTime now) {
  for (;;) {
    const SteadyTime latency_end =
        latencies_.empty() ? SteadyTime::max() : latencies_.begin()->first;
    const SteadyTime share_end = share_.next_end();
    const SteadyTime next = std::min(latency_end, share_end);
    if (next > now) break;
    share_.advance(next);
    if (latency_end <= share_end) {
      const uint64_t key = latencies_.begin()->second;
      latencies_.erase(latencies_.begin());
      end_latency(key);
    } else {
      const uint64_t key = share_.next();
      share_.remove(key);
      const auto flight = flights_.find(key);
      flight->second.phase = Phase::inner;
      if (flight->second.inner_done) complete(flight);
    }
    start_reads(next);
  }
  share_.advance(now);
}

void ShapedSource::end_latency(uint64_t key) {
  const auto flight = flights_.find(key);
  if (flight->second.made_up_fault) return complete(flight);
  const bool limited = shape_.curve || shape_.bytes_per_second > 0;
  if (limited) {
    flight->second.phase = Phase::transfer;
    share_.add(key, flight->second.owed->read().extent.length);
    return;
  }
  flight->second.phase = Phase::inner;
  if (flight->second.inner_done) complete(flight);
}

void ShapedSource::start_reads(SteadyTime now) {
  while (shape_.most_in_flight == 0 || flights_.size() < shape_.most_in_flight) {
    ReadLedger::Ref owed = ledger_.start();
    if (!owed) return;
    start(std::move(owed), now);
  }
}

void ShapedSource::start(ReadLedger::Ref owed, SteadyTime now) {
  const SourceRead& read = owed->read();
  const unsigned attempt = attempts_[read.extent.object]++;
  const auto random = philox(shape_.seed, read.extent.object, attempt);
  const auto happens = [](uint32_t word, double share) {
    return static_cast<double>(word) < share * 4294967296.0;
  };
  const uint64_t key = next_key_++;
  Flight& flight = flights_[key];
  flight.owed = std::move(owed);
  flight.latency_end = now + shape_.latency;
  if (happens(random[0], shape_.stall_share)) flight.latency_end += shape_.stall;
  flight.made_up_fault = happens(random[1], shape_.fault_share);
  if (flight.made_up_fault) {
    flight.outcome = {shape_.fault, 0, fmt::format("made-up fault ({})", name_of(shape_.fault))};
  }
  set_bandwidth();
  if (shape_.hangs && shape_.hangs(read.extent.object, attempt)) {
    flight.phase = Phase::hung;
    return;
  }
  latencies_.emplace(flight.latency_end, key);
  // This source keeps the deadlines, and cancels where one has passed.
  if (!flight.made_up_fault) {
    to_inner_.push_back({key, read.extent, read.into, SteadyTime::max()});
  }
}

void ShapedSource::complete(Flights::iterator flight) {
  Flight done = std::move(flight->second);
  leave_device(flight->first, done);
  flights_.erase(flight);
  set_bandwidth();
  ledger_.finish(done.owed, std::move(done.outcome));
}

void ShapedSource::abandon(const OwedRead* owed) {
  const auto flight = std::find_if(flights_.begin(), flights_.end(), [owed](const auto& entry) {
    return entry.second.owed.get() == owed;
  });
  if (flight == flights_.end()) return;
  const uint64_t key = flight->first;
  Flight left = std::move(flight->second);
  leave_device(key, left);
  flights_.erase(flight);
  set_bandwidth();
  if (left.phase == Phase::hung) {
    left_hung_.push_back(std::move(left.owed));
  } else if (left.made_up_fault || left.inner_done) {
    ledger_.finish(left.owed, {});
  } else {
    left_with_inner_.emplace(key, std::move(left.owed));
    inner_->cancel(key);
  }
}

void ShapedSource::leave_device(uint64_t key, const Flight& flight) {
  latencies_.erase({flight.latency_end, key});
  share_.remove(key);
}

void ShapedSource::set_bandwidth() {
  const auto in_flight = static_cast<unsigned>(std::max<size_t>(flights_.size(), 1));
  const double bandwidth = shape_.curve ? shape_.curve(in_flight) : shape_.bytes_per_second;
  share_.set_bandwidth(bandwidth > 0 ? bandwidth : kUnlimited);
}

}  // namespace

std::unique_ptr<Source> shape_source(
    std::function<std::unique_ptr<Source>(Source::Answered)> make_inner, Shape shape,
    Source::Answered answered) {
  auto source = std::make_unique<ShapedSource>(make_inner, std::move(shape), std::move(answered));
  if (!source->has_inner()) return nullptr;
  return source;
}

}  // namespace foreload
