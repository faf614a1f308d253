// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/keepers.h"

#include <algorithm>

#include "foreload/base/random.h"

namespace foreload {
namespace {

// What the dead owned is dealt out in shares, as many as a survivor has room in comparison with the
// roomiest.
constexpr uint64_t kMostShares = 8;

// Ranks that read the sample and how often, in order of their first read.
std::vector<RankCount> counts_of(const ReaderTable& table, uint64_t sample) {
  std::vector<RankCount> counts;
  auto count = [&counts](uint32_t rank) {
    for (RankCount& known : counts) {
      if (known.rank != rank) continue;
      ++known.count;
      return;
    }
    counts.push_back({rank, 1});
  };
  for (uint32_t row = 0; row < table.epochs(); ++row)
    if (const uint32_t rank = table.reader(row, sample); rank < table.ranks()) count(rank);
  for (const ExtraRead& extra : table.extra_reads(sample)) count(extra.rank);
  return counts;
}

}  // namespace

uint32_t replica_tier(const Plan& plan, uint32_t rank, uint64_t sample) {
  const HoldingRule& rule = plan.placement().holdings();
  const ReaderTable* table = plan.table();
  if (rule.empty() || table == nullptr || plan.placement().owner(sample).rank == rank)
    return kNoTier;
  const size_t last = (size_t{rank} + 1) * rule.tiers() - 1;
  if (rule.limits()[last] == 0) return kNoTier;
  uint32_t count = 0;
  for (uint32_t row = 0; row < table->epochs(); ++row)
    if (table->reader(row, sample) == rank) ++count;
  for (const ExtraRead& extra : table->extra_reads(sample))
    if (extra.rank == rank) ++count;
  if (count == 0) return kNoTier;
  const uint32_t tier = rule.tier_of(rank, sample, count);
  return tier < rule.tiers() ? tier : kNoTier;
}

Keepers::Keepers(const Desk& desk, const Lives& lives, const FirstReads& reads)
    : desk_(desk), lives_(lives), reads_(reads) {
  if (!desk.with_peers) return;
  const Plan& plan = *desk.plan;
  const uint32_t ranks = plan.job().ranks;
  const uint32_t tiers = desk.tiers();
  const Capacities& capacities = plan.capacities();

  // What owned samples leave free, of everybody.
  std::vector<uint64_t> left(capacities.flat().begin(), capacities.flat().end());
  auto take = [&](uint32_t rank, uint32_t tier, uint64_t size) {
    uint64_t& room = left[size_t{rank} * tiers + tier];
    room -= std::min(room, size);
  };
  for (uint64_t sample = 0; sample < desk.samples(); ++sample) {
    const Owner owner = desk.owner(sample);
    if (owner.rank == kNoOwner) continue;
    take(owner.rank, owner.tier, desk.bytes(sample));
    const uint32_t backing = plan.placement().backing(sample);
    if (backing != kNoTier) take(owner.rank, backing, desk.bytes(sample));
  }
  const auto own = left.begin() + static_cast<std::ptrdiff_t>(desk.settings.rank) * tiers;
  own_room_.assign(own, own + tiers);
  std::vector<uint64_t> by_rank(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (uint32_t tier = 0; tier < tiers; ++tier)
      by_rank[rank] += left[size_t{rank} * tiers + tier];
  const uint64_t roomiest = *std::max_element(by_rank.begin(), by_rank.end());
  for (const uint64_t room : by_rank) {
    const bool any = room > 0 && room >= plan.sizes().mean();
    shares_.push_back(static_cast<uint8_t>(any ? 1 + room / (roomiest / kMostShares + 1) : 0));
  }

  const HoldingRule& rule = plan.placement().holdings();
  for (const uint32_t rank : desk.settings.neighbours)
    if (!rule.empty() && rule.limits()[size_t{rank} * rule.tiers()] > 0)
      neighbours_have_replicas_ = true;
}

uint32_t Keepers::keeper_of(uint64_t sample) const {
  const uint32_t owner = desk_.owner(sample).rank;
  if (owner == kNoOwner || unkept_[sample]) return kNoOwner;
  if (owner == desk_.settings.rank || lives_.up(owner)) return owner;
  return heir_of(sample);
}

// Who knows of other deaths may name another one, and only asks in vain.
uint32_t Keepers::heir_of(uint64_t sample) const {
  const HoldingRule& rule = desk_.plan->placement().holdings();
  if (const ReaderTable* table = desk_.plan->table(); table != nullptr && !rule.empty()) {
    for (const auto& [rank, count] : counts_of(*table, sample))
      if (lives_.up(rank) && rule.tier_of(rank, sample, count) < rule.tiers()) return rank;
  }
  uint32_t best = kNoOwner;
  uint64_t most = 0;
  for (uint32_t rank = 0; rank < lives_.ranks(); ++rank) {
    if (!lives_.up(rank)) continue;
    for (uint64_t share = 0; share < shares_[rank]; ++share) {
      const uint64_t score = mix64(mix64(sample) + rank * kMostShares + share);
      if (best != kNoOwner && score < most) continue;
      most = score;
      best = rank;
    }
  }
  return best;
}

Origin Keepers::neighbour_with(uint64_t sample) const {
  if (!desk_.with_peers || desk_.settings.neighbours.empty() || !reads_.was_read(sample)) return {};
  const Owner owner = desk_.owner(sample);
  const uint32_t keeper = keeper_of(sample);
  if (keeper != kNoOwner && lives_.is_neighbour(keeper) &&
      (keeper != owner.rank || owner.tier == 0))
    return {Origin::Kind::neighbour, keeper};
  if (neighbours_have_replicas_) return {Origin::Kind::neighbour, kNoOwner};
  return {};
}

}  // namespace foreload
