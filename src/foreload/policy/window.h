// SPDX-License-Identifier: Apache-2.0
//
// The batches that are open: what has become of each place, who waits for a sample that is on its
// way for another place, and which batch is delivered next. Fetches are open beside them and are
// delivered in any order.
//
// For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "foreload/policy/desk.h"
#include "foreload/policy/throughput.h"

namespace foreload {

class BatchWindow {
 public:
  enum class State : uint8_t { waiting, reading, decoding, ready, bad };
  // Whether the source is read although there is a copy: one of this rank, or of another.
  enum class Detour : uint8_t { no, own_copy, other_copy, never };
  struct Entry {
    uint64_t sample;
    State state = State::waiting;
    ReadEnd end = ReadEnd::ok;
    unsigned tries = 0;
    RunTime first_try{0};
    RunTime asked = RunTime::max();  // when a peer was first to be asked for it
    Detour detour = Detour::no;      // never: it has failed
    uint8_t way = UINT8_MAX;         // in whose line it is counted (outlook.h)
    float won = 0;                   // seconds, by a detour

    bool is_detour() const { return detour == Detour::own_copy || detour == Detour::other_copy; }
  };

  explicit BatchWindow(Desk& desk) : desk_(desk) {}

  // Whether another batch may be open, besides so many bytes of other things; one may always, and
  // two where all of the memory has room for two. Where time is saved, one may always be filled
  // beside the one that the loop has.
  bool has_room(uint64_t bytes, uint64_t samples, uint64_t others) const;
  // Its number.
  uint64_t open(uint64_t epoch, std::span<const uint64_t> samples, uint64_t bytes);
  uint64_t open_bytes() const { return open_bytes_; }

  // A fetch waits until it may be open.
  void queue(const event::Fetch& fetch) { queue_.push_back(fetch); }
  // The first that waits, if there is room for it besides so many bytes of other things; null
  // otherwise. One may always be open, and a quarter of the window whatever ordered batches take.
  const event::Fetch* next_fetch(uint64_t others) const;
  // Opens that one; its number.
  uint64_t open_fetch(uint64_t epoch);
  // Nobody wants it any more. What is on its way comes, and is kept where it should be.
  void forget(uint64_t fetch);
  bool is_forgotten(BatchPlace place) { return batch(place.batch).forgotten; }
  // A place of a fetch that is forgotten gets nothing.
  void leave_empty(BatchPlace place);
  bool has_complete_fetches() const { return !complete_.empty(); }
  // Places of fetches that wait for their bytes.
  std::vector<BatchPlace> unfilled_of_fetches();

  // REQUIRES: the place's batch is open.
  Entry& at(BatchPlace place) { return batch(place.batch).entries[place.index]; }
  uint64_t epoch_of(BatchPlace place) { return batch(place.batch).epoch; }
  // What the loop has, and what it can have.
  uint64_t delivered() const {
    return batches_.empty() ? 0 : next_delivery_ - batches_.front().number;
  }
  uint64_t next_delivery() const { return next_delivery_; }
  // When the loop could have the first of them; 0: there is none.
  RunTime first_delivered_at() const {
    return delivered() > 0 ? batches_.front().delivered_at : RunTime{0};
  }
  // Places of ordered batches that are neither ready nor bad.
  uint64_t unready() const { return unready_; }
  const Throughput& decoding() const { return decoding_; }
  // Somebody waits for it now.
  bool is_next(BatchPlace place) const {
    return place.batch == next_delivery_ || is_fetch(place.batch);
  }

  // The bytes of a place are there; they were decoded, or not; its sample cannot be had.
  void filled(BatchPlace place);
  void decoded(const event::Decoded& e);
  void mark_bad(BatchPlace place, ReadEnd end, unsigned tries, RunTime since);

  // Places that wait for a sample that is on its way for somebody else.
  void wait_for(uint64_t sample, BatchPlace place) { waiters_[sample].push_back(place); }
  const BatchPlace* first_waiter(uint64_t sample) const;
  // REQUIRES: there is one.
  void drop_first_waiter(uint64_t sample);
  std::vector<BatchPlace> take_waiters(uint64_t sample);

  // What is complete, in order.
  void deliver();
  void consumed(uint64_t batch);
  // A seek. Numbers go on, fetches stay open.
  void close_all();

 private:
  struct Batch {
    uint64_t number = 0;
    uint64_t epoch = 0;
    uint64_t bytes = 0;
    uint32_t pending = 0;  // entries neither ready nor bad
    bool delivered = false;
    RunTime delivered_at{0};
    bool failed = false;
    bool as_bytes = false;
    bool forgotten = false;
    std::vector<Entry> entries;
  };
  static Batch make(uint64_t number, uint64_t epoch, std::span<const uint64_t> samples,
                    uint64_t bytes);
  Batch* find(uint64_t number);
  Batch& batch(uint64_t number) {
    return is_fetch(number) ? fetches_.at(number) : batches_[number - batches_.front().number];
  }
  uint64_t bytes_of(const event::Fetch& fetch) const;
  void settle(Batch& batch, Entry& entry, State state);

  Desk& desk_;
  std::deque<Batch> batches_;  // numbers ascending without gaps
  uint64_t next_number_ = 0;
  uint64_t next_delivery_ = 0;
  uint64_t open_bytes_ = 0;
  uint64_t open_samples_ = 0;
  uint64_t unready_ = 0;
  Throughput decoding_;  // samples
  std::deque<event::Fetch> queue_;
  std::map<uint64_t, Batch> fetches_;  // open, by number
  std::vector<uint64_t> complete_;     // of them
  uint64_t fetch_bytes_ = 0;
  std::unordered_map<uint64_t, std::vector<BatchPlace>> waiters_;  // by sample
};

}  // namespace foreload
