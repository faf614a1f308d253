// SPDX-License-Identifier: Apache-2.0
//
// Room left in every tier of every rank while a placement is computed, with the roomiest rank of
// each tier at hand. For one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "foreload/plan/placement.h"

namespace foreload {

class Room {
 public:
  explicit Room(const Capacities& capacities);

  bool fits(uint32_t rank, uint32_t tier, uint64_t bytes) const {
    return left_[rank * tiers_ + tier] >= bytes;
  }
  bool fits(uint32_t rank, uint64_t bytes) const { return fastest_with(rank, bytes) < tiers_; }
  // The rank's first tier that has room, or the number of tiers.
  uint32_t fastest_with(uint32_t rank, uint64_t bytes) const;
  // The rank with most room in the first tier in which anybody has enough.
  std::optional<Owner> roomiest(uint64_t bytes) const;
  // The most room in any tier.
  uint64_t largest() const;
  // REQUIRES: fits(owner.rank, owner.tier, bytes).
  void take(Owner owner, uint64_t bytes);

  uint32_t tiers() const { return tiers_; }
  std::span<const uint64_t> flat() const { return left_; }  // [rank][tier]

 private:
  uint32_t winner(uint32_t tier, uint32_t a, uint32_t b) const;

  uint32_t ranks_;
  uint32_t tiers_;
  std::vector<uint64_t> left_;
  // A tournament per tier: leaf i is rank i, a parent is the child with more room (the lower rank
  // where equal), the root is at 1. Leaves beyond the ranks stay kNoOwner.
  uint32_t leaves_;
  std::vector<uint32_t> tournament_;  // [tier][node]
};

}  // namespace foreload
