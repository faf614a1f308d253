// SPDX-License-Identifier: Apache-2.0
//
// Writes into a Placement while it is being computed. Different samples may be set from different
// threads.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "foreload/plan/placement.h"

namespace foreload {

struct PlacementBuilder {
  PlacementBuilder(PlacementKind kind, uint64_t samples) {
    placement.kind_ = kind;
    placement.ranks_.assign(samples, kNoOwner);
    placement.tiers_.assign(samples, 0);
  }

  bool has_owner(uint64_t sample) const { return placement.ranks_[sample] != kNoOwner; }
  void set_owner(uint64_t sample, Owner owner) {
    placement.ranks_[sample] = owner.rank;
    placement.tiers_[sample] = static_cast<uint8_t>(owner.tier);
  }
  void set_backing(uint64_t sample, uint32_t tier) {
    if (placement.backing_.empty())
      placement.backing_.assign(placement.ranks_.size(), static_cast<uint8_t>(kNoTier));
    placement.backing_[sample] = static_cast<uint8_t>(tier);
  }
  void set_holdings(HoldingRule rule) { placement.holdings_ = std::move(rule); }
  void set_computed(std::shared_ptr<const Placement::Computed> computed) {
    placement.computed_ = std::move(computed);
  }
  Placement finish() { return std::move(placement); }

  Placement placement;
};

}  // namespace foreload
