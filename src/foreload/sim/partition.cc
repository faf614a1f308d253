// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/partition.h"

namespace foreload::sim {

Partition::Partition(const Scenario& scenario, const Workload& workload, uint32_t tiers)
    : ranks_(workload.ranks()), tiers_used_(tiers), tiers_(workload.sizes().samples(), kNowhere) {
  next_.resize(uint64_t{ranks_} * tiers_used_);
  std::vector<uint64_t> room(tiers_used_);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    for (uint32_t tier = 0; tier < tiers_used_; ++tier) {
      room[tier] = scenario.cluster.capacity(tier);
      next_[uint64_t{rank} * tiers_used_ + tier] = rank;
    }
    for (uint64_t sample = rank; sample < tiers_.size(); sample += ranks_) {
      const uint64_t bytes = workload.sizes()[sample];
      for (uint32_t tier = 0; tier < tiers_used_; ++tier) {
        if (bytes > room[tier] || scenario.cluster.capacity(tier) == 0) continue;
        room[tier] -= bytes;
        tiers_[sample] = static_cast<uint8_t>(tier);
        break;
      }
    }
  }
}

std::optional<uint32_t> Partition::next_fill(uint32_t rank, uint32_t tier) {
  if (tier >= tiers_used_) return std::nullopt;
  uint64_t& next = next_[uint64_t{rank} * tiers_used_ + tier];
  while (next < tiers_.size() && tiers_[next] != tier) next += ranks_;
  if (next >= tiers_.size()) return std::nullopt;
  const auto sample = static_cast<uint32_t>(next);
  next += ranks_;
  return sample;
}

}  // namespace foreload::sim
