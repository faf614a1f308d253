// SPDX-License-Identifier: Apache-2.0
//
// The virtual clock: what happens next. Whoever takes part (a device, a rank, a wait) has a slot
// with at most one time at which it wants to be woken; changing that time costs O(log slots), so a
// device whose next completion moves with every arrival leaves nothing behind.
//
// Deterministic: equal times are woken in the order in which they were set. For one thread.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace foreload::sim {

// Seconds of simulated time since the start of the run.
using Time = double;
inline constexpr Time kNever = std::numeric_limits<Time>::infinity();

// Wakes between two reports of progress.
inline constexpr uint64_t kWakesPerReport = 1 << 16;

class Agenda {
 public:
  // A new slot, or one that was removed before, with no time set.
  uint32_t add();
  // REQUIRES: no time is set.
  void remove(uint32_t slot) { free_.push_back(slot); }

  // Sets, moves or (kNever) clears the time of a slot. A time that has passed means now.
  void set(uint32_t slot, Time at);

  Time now() const { return now_; }
  bool empty() const { return heap_.empty(); }
  // Moves the clock to the earliest time and returns its slot, whose time is cleared.
  // REQUIRES: !empty().
  uint32_t next();

 private:
  static constexpr uint32_t kNowhere = UINT32_MAX;

  bool before(uint32_t a, uint32_t b) const {
    return times_[a] < times_[b] || (times_[a] == times_[b] && turns_[a] < turns_[b]);
  }
  void move_up(uint32_t place);
  void move_down(uint32_t place);
  void take_out(uint32_t place);
  void put(uint32_t place, uint32_t slot) {
    heap_[place] = slot;
    places_[slot] = place;
  }

  Time now_ = 0;
  std::vector<Time> times_;      // by slot
  std::vector<uint64_t> turns_;  // by slot: when its time was set, in calls
  uint64_t turn_ = 0;
  std::vector<uint32_t> places_;  // by slot: where in the heap
  std::vector<uint32_t> heap_;    // of slots
  std::vector<uint32_t> free_;
};

}  // namespace foreload::sim
