// SPDX-License-Identifier: Apache-2.0
//
// The batches that are open: what has become of each place, who waits for a sample that is on its
// way for another place, and which batch is delivered next.
//
// For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "foreload/policy/desk.h"

namespace foreload {

class BatchWindow {
 public:
  enum class State : uint8_t { waiting, reading, decoding, ready, bad };
  struct Entry {
    uint64_t sample;
    State state = State::waiting;
    ReadEnd end = ReadEnd::ok;
    unsigned tries = 0;
    RunTime first_try{0};
    RunTime asked = RunTime::max();  // when a peer was first to be asked for it
  };

  explicit BatchWindow(Desk& desk) : desk_(desk) {}

  // Whether another batch may be open, besides so many bytes of other things; one may always.
  bool has_room(uint64_t bytes, uint64_t samples, uint64_t others) const;
  // Its number.
  uint64_t open(uint64_t epoch, std::span<const uint64_t> samples, uint64_t bytes);
  uint64_t open_bytes() const { return open_bytes_; }

  // REQUIRES: the place's batch is open.
  Entry& at(BatchPlace place) { return batch(place.batch).entries[place.index]; }
  uint64_t epoch_of(BatchPlace place) { return batch(place.batch).epoch; }
  bool is_next(BatchPlace place) const { return place.batch == next_delivery_; }

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
  // A seek. Numbers go on.
  void close_all();

 private:
  struct Batch {
    uint64_t number = 0;
    uint64_t epoch = 0;
    uint64_t bytes = 0;
    uint32_t pending = 0;  // entries neither ready nor bad
    bool delivered = false;
    bool failed = false;
    std::vector<Entry> entries;
  };
  Batch* find(uint64_t number);
  Batch& batch(uint64_t number) { return batches_[number - batches_.front().number]; }
  static void settle(Batch& batch, Entry& entry, State state);

  Desk& desk_;
  std::deque<Batch> batches_;  // numbers ascending without gaps
  uint64_t next_number_ = 0;
  uint64_t next_delivery_ = 0;
  uint64_t open_bytes_ = 0;
  uint64_t open_samples_ = 0;
  std::unordered_map<uint64_t, std::vector<BatchPlace>> waiters_;  // by sample
};

}  // namespace foreload
