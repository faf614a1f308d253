// SPDX-License-Identifier: Apache-2.0
//
// A device that its users share fairly: with n reads under way each gets 1/n of what the throughput
// curve gives for n. Contention follows who is reading at that moment.
//
// The device keeps a virtual time, the bytes that a read served since the beginning would have got.
// A read ends when that has grown by its size, so a change in the number of readers changes how
// fast virtual time passes and nothing else: arrival and departure cost O(log n), nothing is
// rescanned.
//
// For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "foreload/model/curve.h"
#include "foreload/sim/agenda.h"

namespace foreload::sim {

// What one of n readers gets, in bytes per second, for every n; shared by devices of one make.
class ShareTable {
 public:
  explicit ShareTable(const Curve& curve);
  // REQUIRES: readers >= 1.
  double share(uint64_t readers) const {
    return readers < shares_.size() ? shares_[readers] : last_ / static_cast<double>(readers);
  }
  // The most that any number of readers gets together.
  double best() const { return best_; }

 private:
  std::vector<double> shares_;
  double last_ = 0;
  double best_ = 0;
};

class Device {
 public:
  // The agenda wakes `slot` when the next read ends.
  Device(std::shared_ptr<const ShareTable> table, Agenda& agenda);

  uint32_t slot() const { return slot_; }
  uint64_t readers() const { return reads_.size(); }
  const ShareTable& table() const { return *table_; }
  // What each reader gets if one more comes.
  double next_share() const { return table_->share(readers() + 1) * speed_; }

  // `ticket` comes back from end().
  void start(Agenda& agenda, uint64_t bytes, uint64_t ticket);
  // The slot was woken: the ticket of the read that has ended.
  uint64_t end(Agenda& agenda);
  // From now on the device is so many times as fast as its curve; 0: it hangs.
  void set_speed(Agenda& agenda, double speed);

 private:
  struct Read {
    double end;  // virtual time
    uint64_t ticket;
    friend bool operator>(const Read& a, const Read& b) {
      return a.end > b.end || (a.end == b.end && a.ticket > b.ticket);
    }
  };

  void pass_time(const Agenda& agenda);
  void schedule(Agenda& agenda);

  std::shared_ptr<const ShareTable> table_;
  uint32_t slot_;
  double speed_ = 1;
  double rate_ = 0;          // of virtual time, bytes per second
  double virtual_ = 0;       // bytes
  Time as_of_ = 0;           // when virtual_ was right
  std::vector<Read> reads_;  // a heap, the earliest end in front
};

}  // namespace foreload::sim
