// SPDX-License-Identifier: Apache-2.0
//
// One rank of a transport's test: it sends, remembers everything the transport called, and can wait
// for it. The same test body runs on every rank, in threads of one process or in processes.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"
#include "foreload/peers/transport.h"

#include "patience.h"

namespace foreload {

inline std::string payload_bytes(uint64_t seed, size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = mix64(seed << 32 | i);
    bytes.replace(i, std::min<size_t>(8, size - i), reinterpret_cast<const char*>(&word),
                  std::min<size_t>(8, size - i));
  }
  return bytes;
}

struct Arrival {
  uint32_t from = 0;
  std::string header;
  std::string payload;  // as received into the place given; empty if not wanted
  uint64_t bytes = 0;
  bool intact = false;
};

class RankAtWork {
 public:
  using Meet = std::function<bool()>;

  RankAtWork(uint32_t own, uint32_t all, Meet meet)
      : rank(own), ranks(all), meet_(std::move(meet)) {}

  // All ranks have come this far. A rank that failed does not make the others hang for ever.
  void meet() { ASSERT_TRUE(meet_()) << "rank " << rank << ": another rank did not come"; }

  TransportCalls calls() {
    TransportCalls calls;
    calls.incoming = [this](uint32_t from, std::span<const std::byte> header, uint64_t bytes) {
      return place_for(from, text(header), bytes);
    };
    calls.arrived = [this](uint32_t from, std::span<const std::byte> header, PayloadPlace place,
                           uint64_t bytes, bool intact) {
      const Calling calling(*this);
      Arrival arrival{from, text(header), {}, bytes, intact};
      if (place.data != nullptr) {
        arrival.payload.assign(reinterpret_cast<const char*>(place.data), bytes);
      }
      place = {};
      if (on_arrival) on_arrival(arrival);
      const std::scoped_lock lock(mutex_);
      arrivals_.push_back(std::move(arrival));
      changed_.notify_all();
    };
    calls.sent = [this](uint64_t id, bool ok) {
      const Calling calling(*this);
      if (on_sent) on_sent(id, ok);
      const std::scoped_lock lock(mutex_);
      ++answers_[id];
      ++(ok ? sent_ok_ : sent_failed_);
      changed_.notify_all();
    };
    calls.lost = [this](uint32_t gone, const std::string& why) {
      const Calling calling(*this);
      EXPECT_FALSE(why.empty());
      const std::scoped_lock lock(mutex_);
      lost_.push_back(gone);
      changed_.notify_all();
    };
    return calls;
  }
  void start(std::unique_ptr<Transport> transport) {
    const std::scoped_lock lock(mutex_);
    transport_ = std::move(transport);
    changed_.notify_all();
  }
  void end() {
    // Calls are made while it ends, and they lock.
    std::unique_ptr<Transport> ended;
    {
      const std::scoped_lock lock(mutex_);
      ended = std::move(transport_);
      ended_ = ended.get();
    }
    ended.reset();
  }
  // Calls may come before start().
  Transport& transport() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return transport_ != nullptr || ended_ != nullptr; });
    return transport_ != nullptr ? *transport_ : *ended_;
  }

  uint64_t send(uint32_t to, const std::string& header, const std::string& payload = "") {
    return send_shared(to, header, std::make_shared<const std::string>(payload));
  }
  uint64_t send_shared(uint32_t to, const std::string& header,
                       const std::shared_ptr<const std::string>& payload) {
    uint64_t id = 0;
    {
      const std::scoped_lock lock(mutex_);
      id = 1000 + ++sends_;
    }
    transport().send(
        to, {id, std::as_bytes(std::span(header)), std::as_bytes(std::span(*payload)), payload});
    return id;
  }

  bool wait(const std::function<bool()>& over, std::chrono::milliseconds most = kPatience) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, over);
  }
  bool wait_for_arrivals(size_t count) {
    return wait([&] { return arrivals_.size() >= count; });
  }
  bool wait_for_answers(size_t count) {
    return wait([&] { return sent_ok_ + sent_failed_ >= count; });
  }
  bool wait_for_lost(size_t count) {
    return wait([&] { return lost_.size() >= count; });
  }
  bool wait_for_all_sent() {
    return wait([&] { return sent_ok_ + sent_failed_ >= sends_; });
  }

  std::vector<Arrival> arrivals() const { return locked(arrivals_); }
  std::vector<uint32_t> lost() const { return locked(lost_); }
  size_t sent_ok() const { return locked(sent_ok_); }
  size_t sent_failed() const { return locked(sent_failed_); }
  size_t sends() const { return locked(sends_); }
  size_t most_places() const { return locked(most_places_); }
  // The largest number of answers to one message; 1 if all is well.
  int most_answers() const {
    const std::scoped_lock lock(mutex_);
    int most = 0;
    for (const auto& [id, count] : answers_) most = std::max(most, count);
    return most;
  }

  const uint32_t rank;
  const uint32_t ranks;
  // Set before start().
  std::function<bool(const std::string& header)> wanted = [](const std::string&) { return true; };
  std::function<void(const Arrival&)> on_arrival;     // runs inside the transport's call
  std::function<void(uint64_t id, bool ok)> on_sent;  // the same

 private:
  // Finds calls that overlap.
  class Calling {
   public:
    explicit Calling(RankAtWork& rank) : rank_(rank) {
      EXPECT_FALSE(rank_.calling_.exchange(true)) << "two calls at a time";
    }
    ~Calling() { rank_.calling_ = false; }

   private:
    RankAtWork& rank_;
  };

  static std::string text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  PayloadPlace place_for(uint32_t, const std::string& header, uint64_t bytes) {
    const Calling calling(*this);
    if (!wanted(header)) return {};
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    const std::scoped_lock lock(mutex_);
    most_places_ = std::max(most_places_, ++places_);
    std::byte* const data = memory->data();
    return {data, std::shared_ptr<const void>(data, [this, memory](const void*) {
              const std::scoped_lock again(mutex_);
              --places_;
            })};
  }
  template <class T>
  T locked(const T& value) const {
    const std::scoped_lock lock(mutex_);
    return value;
  }

  const Meet meet_;
  std::atomic<bool> calling_ = false;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Arrival> arrivals_;
  std::vector<uint32_t> lost_;
  std::map<uint64_t, int> answers_;
  size_t sends_ = 0;
  size_t sent_ok_ = 0;
  size_t sent_failed_ = 0;
  size_t places_ = 0;
  size_t most_places_ = 0;
  Transport* ended_ = nullptr;            // while and after it ends
  std::unique_ptr<Transport> transport_;  // the first to go
};

// A point where so many threads meet; false for those that waited too long.
class MeetingPoint {
 public:
  explicit MeetingPoint(uint32_t threads) : threads_(threads) {}
  bool meet() {
    std::unique_lock lock(mutex_);
    const uint64_t round = round_;
    if (++here_ == threads_) {
      here_ = 0;
      ++round_;
      all_here_.notify_all();
      return true;
    }
    return all_here_.wait_for(lock, kPatience, [&] { return round_ != round; });
  }

 private:
  const uint32_t threads_;
  std::mutex mutex_;
  std::condition_variable all_here_;
  uint32_t here_ = 0;
  uint64_t round_ = 0;
};

}  // namespace foreload
