// SPDX-License-Identifier: Apache-2.0
//
// Bandwidth shared evenly by transfers that come and go: says when each of them ends. Every
// transfer gets the same number of bytes per second, so one running total of bytes per transfer,
// and the total at which each one ends, describe all of them. Private to stores; for one thread.
#pragma once

#include <cstdint>
#include <set>
#include <unordered_map>
#include <utility>

#include "foreload/stores/source.h"

namespace foreload {

class FairShare {
 public:
  // Time moves forward only. REQUIRES: no transfer ends before `now`.
  void advance(SteadyTime now) {
    if (now <= now_) return;
    served_ += rate() * std::chrono::duration<double>(now - now_).count();
    now_ = now;
  }
  // Of all transfers together, from now on. REQUIRES: positive.
  void set_bandwidth(double bytes_per_second) { bandwidth_ = bytes_per_second; }
  void add(uint64_t key, uint64_t bytes) {
    const double end = served_ + static_cast<double>(bytes);
    ends_.emplace(end, key);
    end_of_.emplace(key, end);
  }
  void remove(uint64_t key) {
    const auto found = end_of_.find(key);
    if (found == end_of_.end()) return;
    ends_.erase({found->second, key});
    end_of_.erase(found);
  }
  // The transfer that ends next if none comes or goes. REQUIRES: there is one.
  uint64_t next() const { return ends_.begin()->second; }
  SteadyTime next_end() const {
    if (ends_.empty()) return SteadyTime::max();
    const double seconds = (ends_.begin()->first - served_) / rate();
    if (seconds <= 0) return now_;
    if (seconds > kLongest) return SteadyTime::max();
    return now_ + std::chrono::ceil<SteadyTime::duration>(std::chrono::duration<double>(seconds));
  }

 private:
  static constexpr double kLongest = 1e9;  // seconds

  double rate() const { return ends_.empty() ? 0 : bandwidth_ / static_cast<double>(ends_.size()); }

  SteadyTime now_{};
  double bandwidth_ = 1;
  double served_ = 0;  // bytes that a transfer from the start would have got
  std::set<std::pair<double, uint64_t>> ends_;  // total at which a transfer ends, its key
  std::unordered_map<uint64_t, double> end_of_;
};

}  // namespace foreload
