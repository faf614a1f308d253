// SPDX-License-Identifier: Apache-2.0
//
// What waits for a device, by who waits for it. Classes that wait share the device by weight
// (start-time fair queueing): each item is due when its class has had its share of the cost of
// everything before it. Within a class items stay in order. A class that had nothing to ask has not
// saved up anything, and one that waits alone has it all.
//
// REQUIRES: one thread at a time; tiers guard it with a lock of theirs.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "foreload/tiers/tier.h"

namespace foreload {

template <class Item>
class TrafficQueue {
 public:
  // `cost` in bytes or whatever the device is short of; every item costs a little more than that.
  void push(Traffic traffic, uint64_t cost, Item item) {
    const auto number = static_cast<size_t>(traffic);
    Lane& lane = lanes_[number];
    const uint64_t start = std::max(now_, lane.end);
    const uint64_t length = (cost + kCostOfAny) * kWhole / kTrafficWeights[number];
    lane.end = start + length;
    lane.waiting.push_back({start, length, std::move(item)});
    ++size_;
  }

  // Of the class that is due next; nothing if nothing waits.
  std::optional<Item> pop() {
    Lane* due = nullptr;
    for (Lane& lane : lanes_) {
      if (lane.waiting.empty()) continue;
      if (due == nullptr || lane.waiting.front().start < due->waiting.front().start) due = &lane;
    }
    if (due == nullptr) return std::nullopt;
    now_ = due->waiting.front().start;
    std::optional<Item> item(std::move(due->waiting.front().item));
    due->waiting.pop_front();
    --size_;
    return item;
  }

  // Takes out what `unwanted(item)` says; it may take parts out of an item and leave the rest.
  template <class Unwanted>
  void cancel(Unwanted unwanted) {
    for (Lane& lane : lanes_) {
      if (lane.waiting.empty()) continue;
      // What never began does not count as the class's share.
      lane.end = lane.waiting.front().start;
      size_ -= std::erase_if(lane.waiting, [&](Waiting& one) { return unwanted(one.item); });
      for (Waiting& one : lane.waiting) {
        one.start = lane.end;
        lane.end += one.length;
      }
    }
  }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

 private:
  struct Waiting {
    uint64_t start = 0;  // in virtual time; the end of the one before it in the lane
    uint64_t length = 0;
    Item item;
  };
  struct Lane {
    std::deque<Waiting> waiting;
    uint64_t end = 0;  // of what was pushed last
  };
  static constexpr uint64_t kCostOfAny = 512;
  static constexpr uint64_t kWhole = 16;  // so that weights up to this lose nothing by division

  std::array<Lane, kTraffics> lanes_;
  uint64_t now_ = 0;  // the start of what began last
  size_t size_ = 0;
};

}  // namespace foreload
