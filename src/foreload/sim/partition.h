// SPDX-License-Identifier: Apache-2.0
//
// A data set dealt out to ranks without counting anything: sample k goes to rank k mod N, onto its
// fastest tier with room, until the rank is full. The rivals that fill their caches before training
// keep samples this way.
//
// For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "foreload/sim/cluster.h"
#include "foreload/sim/scenario.h"
#include "foreload/sim/workload.h"

namespace foreload::sim {

class Partition {
 public:
  // Uses the first `tiers` tiers.
  Partition(const Scenario& scenario, const Workload& workload, uint32_t tiers);

  bool keeps(uint32_t sample) const { return tiers_[sample] != kNowhere; }
  uint32_t rank_of(uint32_t sample) const { return sample % ranks_; }
  uint32_t tier_of(uint32_t sample) const { return tiers_[sample]; }
  // Where a rank finds a sample that is kept.
  Place place(uint32_t rank, uint32_t sample) const {
    const uint32_t owner = rank_of(sample);
    return {owner == rank ? Place::Kind::own : Place::Kind::peer, false, false, tier_of(sample),
            owner};
  }
  // The next sample of a rank's tier that was not asked for yet.
  std::optional<uint32_t> next_fill(uint32_t rank, uint32_t tier);

 private:
  static constexpr uint8_t kNowhere = UINT8_MAX;

  uint32_t ranks_;
  uint32_t tiers_used_;
  std::vector<uint8_t> tiers_;  // by sample
  std::vector<uint64_t> next_;  // [rank][tier]: the sample to look at next
};

}  // namespace foreload::sim
