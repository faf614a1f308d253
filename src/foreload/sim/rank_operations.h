// SPDX-License-Identifier: Apache-2.0
//
// What a simulated rank has under way, on devices and on the network. Tokens of the cluster's
// transfers name an operation and its rank; reads, and what is made of them, are found by the
// number of the policy's request, too.
//
// For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>
#include <vector>

#include "foreload/policy/events.h"
#include "foreload/sim/agenda.h"
#include "foreload/sim/world.h"

namespace foreload::sim {

enum class Work : uint8_t {
  read,
  delayed_read,
  place,
  make,
  decode,
  compute_epoch,
  // To a peer: a question, its end, an answer without and with bytes, a push, its answer, and
  // asking for a sign of life and giving one.
  ask,
  stop_asking,
  refuse,
  serve,
  push,
  answer_push,
  ping,
  pong,
};

// There are millions: the order of members leaves no gaps.
struct Operation {
  Work work = Work::read;
  bool cancelled = false;
  ReadEnd end = ReadEnd::ok;
  uint32_t peer = 0;
  uint64_t request = 0;
  uint64_t sample = kNoSample;  // or the epoch
  BatchPlace place;
  Origin where;       // it is read, or placed
  Time deadline = 0;  // of a read from the source
};

class RankOperations {
 public:
  explicit RankOperations(uint32_t rank) : rank_(rank) {}

  // Returns its token.
  uint64_t keep(const Operation& operation);
  Operation& operator[](uint64_t token) { return operations_[static_cast<uint32_t>(token)]; }
  const Operation& operator[](uint64_t token) const {
    return operations_[static_cast<uint32_t>(token)];
  }
  // It is over; its token may come again.
  Operation take(uint64_t token);
  static uint32_t rank_of(uint64_t token) { return static_cast<uint32_t>(token >> 32); }

  // From now until forget() the request is this operation.
  void expect_read(uint64_t request, uint64_t token);
  void expect_made(uint64_t request, uint64_t token) { making_[request] = token; }
  // Nothing: it has ended, or was cancelled.
  std::optional<uint64_t> token_of(uint64_t request) const;
  void forget(uint64_t request);

 private:
  // Requests' numbers are slots of the policy with a generation above.
  struct Read {
    uint64_t request = UINT64_MAX;
    uint64_t token = 0;
  };

  bool reads(uint64_t request) const {
    const auto slot = static_cast<uint32_t>(request);
    return slot < reads_.size() && reads_[slot].request == request;
  }

  const uint32_t rank_;
  std::deque<Operation> operations_;
  std::vector<uint32_t> free_;
  std::vector<Read> reads_;                        // by slot
  std::unordered_map<uint64_t, uint64_t> making_;  // tokens, by request: their slots are free
};

}  // namespace foreload::sim
