// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/room.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace foreload {

Room::Room(const Capacities& capacities)
    : ranks_(capacities.ranks()),
      tiers_(capacities.tiers()),
      left_(capacities.flat().begin(), capacities.flat().end()),
      leaves_(std::bit_ceil(ranks_)),
      tournament_(static_cast<size_t>(tiers_) * 2 * leaves_, kNoOwner) {
  for (uint32_t tier = 0; tier < tiers_; ++tier) {
    uint32_t* nodes = tournament_.data() + static_cast<size_t>(tier) * 2 * leaves_;
    for (uint32_t rank = 0; rank < ranks_; ++rank) nodes[leaves_ + rank] = rank;
    for (uint32_t node = leaves_ - 1; node > 0; --node)
      nodes[node] = winner(tier, nodes[2 * node], nodes[2 * node + 1]);
  }
}

uint32_t Room::winner(uint32_t tier, uint32_t a, uint32_t b) const {
  if (b == kNoOwner) return a;
  return left_[b * tiers_ + tier] > left_[a * tiers_ + tier] ? b : a;
}

uint32_t Room::fastest_with(uint32_t rank, uint64_t bytes) const {
  uint32_t tier = 0;
  while (tier < tiers_ && !fits(rank, tier, bytes)) ++tier;
  return tier;
}

std::optional<Owner> Room::roomiest(uint64_t bytes) const {
  for (uint32_t tier = 0; tier < tiers_; ++tier) {
    const uint32_t rank = tournament_[static_cast<size_t>(tier) * 2 * leaves_ + 1];
    if (fits(rank, tier, bytes)) return Owner{rank, tier};
  }
  return std::nullopt;
}

uint64_t Room::largest() const {
  uint64_t most = 0;
  for (uint32_t tier = 0; tier < tiers_; ++tier) {
    const uint32_t rank = tournament_[static_cast<size_t>(tier) * 2 * leaves_ + 1];
    most = std::max(most, left_[rank * tiers_ + tier]);
  }
  return most;
}

void Room::take(Owner owner, uint64_t bytes) {
  assert(fits(owner.rank, owner.tier, bytes));
  left_[owner.rank * tiers_ + owner.tier] -= bytes;
  uint32_t* nodes = tournament_.data() + static_cast<size_t>(owner.tier) * 2 * leaves_;
  for (uint32_t node = (leaves_ + owner.rank) / 2; node > 0; node /= 2)
    nodes[node] = winner(owner.tier, nodes[2 * node], nodes[2 * node + 1]);
}

}  // namespace foreload
