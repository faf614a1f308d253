// SPDX-License-Identifier: Apache-2.0
//
// What an engine counts for its statistics, and how busy its stages are. Whatever is counted is
// seen by the next stats().
//
// update() is the loop's; any thread may call the rest.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "foreload/fetch/engine_parts.h"
#include "foreload/fetch/engine_stats.h"

namespace foreload {

class EngineCounts {
 public:
  // What there is now, of things that the policy does not count.
  struct Present {
    uint64_t ready_batches = 0;
    uint64_t disk_jobs = 0;
    uint64_t peer_requests = 0;
  };

  // `parts` are complete, and outlive this.
  explicit EngineCounts(const EngineParts& parts);

  // Calls count(stats) while nobody else counts.
  template <class Count>
  void count(Count count) {
    const std::lock_guard lock(mutex_);
    count(stats_);
  }
  // A copy that came from a peer or a neighbour.
  void count_corrupt(uint32_t rank);
  void count_decoded(uint64_t sample, std::chrono::nanoseconds took);
  // After every round.
  void update(const Policy& policy, const Present& present);
  EngineStats stats() const;

 private:
  // REQUIRES: mutex_ held.
  void set_stages(const Policy& policy, const Present& present);

  const EngineParts& parts_;
  mutable std::mutex mutex_;
  EngineStats stats_;
  // The loop's.
  std::vector<StageLoad> loads_;  // source, tiers, hands
  StageLoad disks_load_;
  StageLoad peers_load_;
};

}  // namespace foreload
