// SPDX-License-Identifier: Apache-2.0
//
// Keeps the order of messages from one peer: payloads of several messages may arrive side by side
// and end in any order, but `arrived` is called in the order in which the messages began. Private
// to peers; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "foreload/peers/transport.h"

namespace foreload::peers {

class DeliveryOrder {
 public:
  // A message began; the number names it until it is delivered.
  uint64_t begin(std::span<const std::byte> header, PayloadPlace place, uint64_t bytes) {
    waiting_.push_back({{header.begin(), header.end()}, std::move(place), bytes, false, false});
    return first_ + waiting_.size() - 1;
  }
  // It ended; calls `arrived` for every message that is next in turn.
  void end(uint64_t number, bool intact, uint32_t from, const TransportCalls& calls) {
    Waiting& ended = waiting_[number - first_];
    ended.ended = true;
    ended.intact = intact;
    while (!waiting_.empty() && waiting_.front().ended) {
      Waiting next = std::move(waiting_.front());
      waiting_.pop_front();
      ++first_;
      if (!silent_) {
        calls.arrived(from, next.header, std::move(next.place), next.bytes, next.intact);
      }
    }
  }
  // Nobody wants to hear of these messages any more. Places are let go when they end, not before:
  // the network may still write to them.
  void silence() { silent_ = true; }

 private:
  struct Waiting {
    std::vector<std::byte> header;
    PayloadPlace place;
    uint64_t bytes = 0;
    bool ended = false;
    bool intact = false;
  };
  std::deque<Waiting> waiting_;
  uint64_t first_ = 0;  // number of waiting_.front()
  bool silent_ = false;
};

}  // namespace foreload::peers
