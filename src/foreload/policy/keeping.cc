// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/keeping.h"

#include <algorithm>
#include <utility>

namespace foreload {

Keeping::Keeping(Desk& desk, Copies& copies, const Keepers& keepers, const Lives& lives,
                 std::span<const Held> held)
    : desk_(desk),
      copies_(copies),
      keepers_(keepers),
      lives_(lives),
      eviction_(make_eviction(desk.settings.eviction, desk.tiers())),
      spare_(keepers.own_room().begin(), keepers.own_room().end()),
      replica_bytes_(desk.with_peers ? desk.tiers() : 0) {
  for (const Held& copy : held)
    if (copy.rank == desk.settings.rank) find(copy);
}

void Keeping::find(const Held& copy) {
  const Owner owner = desk_.owner(copy.sample);
  if (owner.rank == copy.rank) {
    if (owner.tier == copy.tier || desk_.plan->placement().backing(copy.sample) == copy.tier)
      copies_.add(copy.sample, copy.tier);
    return;
  }
  // A second copy of an earlier run, found on a disk.
  if (!desk_.with_peers || replica_tier(*desk_.plan, copy.rank, copy.sample) != copy.tier) return;
  const uint64_t size = desk_.bytes(copy.sample);
  if (spare_[copy.tier] < size) return no_room_for_.push_back(copy);
  spare_[copy.tier] -= size;
  replica_bytes_[copy.tier] += size;
  copies_.add(copy.sample, copy.tier);
}

void Keeping::begin() {
  for (const Held& copy : std::exchange(no_room_for_, {}))
    desk_.act(action::Evict{copy.sample, copy.tier});
}

bool Keeping::is_adopted(uint64_t sample) const {
  const auto guest = guests_.find(sample);
  return guest != guests_.end() && guest->second.adopted_on != kNoTier;
}

bool Keeping::is_replica(uint64_t sample) const {
  return !desk_.is_owner(sample) && !is_adopted(sample);
}

uint32_t Keeping::tier_of(uint64_t sample) const {
  const Owner owner = desk_.owner(sample);
  if (owner.rank == desk_.settings.rank) return copies_.alive(owner.tier) ? owner.tier : kNoTier;
  return desk_.with_peers && keepers_.is_here(sample) ? adopting_tier(sample) : kNoTier;
}

uint32_t Keeping::second_tier_of(uint64_t sample) const {
  const uint32_t tier = desk_.plan->placement().backing(sample);
  return tier != kNoTier && copies_.alive(tier) && desk_.is_owner(sample) ? tier : kNoTier;
}

uint32_t Keeping::replica_tier_of(uint64_t sample) const {
  const uint64_t size = desk_.bytes(sample);
  if (std::none_of(spare_.begin(), spare_.end(), [size](uint64_t room) { return room >= size; }))
    return kNoTier;
  const uint32_t tier = replica_tier(*desk_.plan, desk_.settings.rank, sample);
  return tier != kNoTier && copies_.alive(tier) && spare_[tier] >= size ? tier : kNoTier;
}

// The tier that has room for a sample of a dead rank, or has it.
uint32_t Keeping::adopting_tier(uint64_t sample) const {
  if (is_adopted(sample)) {
    const uint32_t tier = guests_.at(sample).adopted_on;
    return copies_.alive(tier) ? tier : kNoTier;
  }
  const uint64_t size = desk_.bytes(sample);
  for (uint32_t tier = 0; tier < spare_.size(); ++tier)
    if (copies_.alive(tier) && spare_[tier] >= size) return tier;
  for (uint32_t tier = 0; tier < spare_.size(); ++tier)
    if (copies_.alive(tier) && spare_[tier] + replica_bytes_[tier] >= size) return tier;
  return kNoTier;
}

void Keeping::adopt(uint64_t sample, uint32_t tier) {
  if (is_adopted(sample)) return;
  guests_[sample].adopted_on = tier;
  make_room(tier, desk_.bytes(sample));
  spare_[tier] -= desk_.bytes(sample);
  ++desk_.totals.adopted;
}

void Keeping::make_room(uint32_t tier, uint64_t bytes) {
  if (spare_[tier] >= bytes || replica_bytes_[tier] == 0) return;
  eviction_->make_room(
      {tier, desk_.samples(), [&] { return spare_[tier] < bytes && replica_bytes_[tier] > 0; },
       [&](uint64_t sample) { return copies_.has(sample, tier) && is_replica(sample); },
       [&](uint64_t sample) { return desk_.bytes(sample); },
       [&](uint64_t sample) {
         forget(sample, tier);
         ++desk_.totals.gave_way;
         desk_.act(action::Evict{sample, tier});
       }});
}

void Keeping::place(uint64_t sample, uint32_t tier) {
  if (tier > 0) placing_bytes_ += desk_.bytes(sample);
  if (desk_.with_peers && !desk_.is_owner(sample)) ++guests_[sample].placing;
}

bool Keeping::placed(const event::Placed& e) {
  if (e.tier > 0) placing_bytes_ -= desk_.bytes(e.sample);
  const bool ok = e.ok && copies_.alive(e.tier);
  const bool is_new = ok && !copies_.has(e.sample, e.tier);
  if (ok) copies_.add(e.sample, e.tier);
  if (desk_.with_peers && !desk_.is_owner(e.sample)) guest_placed(e.sample, e.tier, ok, is_new);
  return ok;
}

void Keeping::guest_placed(uint64_t sample, uint32_t tier, bool ok, bool is_new) {
  const auto found = guests_.find(sample);
  const bool others = --found->second.placing > 0;
  if (!others && found->second.adopted_on == kNoTier) guests_.erase(found);
  const uint64_t size = desk_.bytes(sample);
  if (is_new && is_replica(sample)) {
    ++desk_.totals.replicas;
    replica_bytes_[tier] += size;
    const uint32_t owner = desk_.owner(sample).rank;
    if (owner != kNoOwner && !lives_.up(owner)) take_over(sample, tier);
  }
  if (ok || others || copies_.has(sample, tier)) return;
  spare_[tier] += size;
  if (guests_.erase(sample) == 0) return;
  --desk_.totals.adopted;
  // There may be room for it, but not in one piece.
  make_room(tier, spare_[tier] + size);
}

// A replica whose owner has died: others count on it now, if this rank is the heir.
void Keeping::take_over(uint64_t sample, uint32_t tier) {
  if (!keepers_.is_here(sample)) return;
  guests_[sample].adopted_on = tier;
  replica_bytes_[tier] -= desk_.bytes(sample);
  ++desk_.totals.adopted;
}

void Keeping::take_over_replicas() {
  if (std::ranges::all_of(replica_bytes_, [](uint64_t bytes) { return bytes == 0; })) return;
  // Those of earlier deaths too: the heir may have died now.
  for (uint64_t sample = 0; sample < desk_.samples(); ++sample) {
    if (!copies_.has(sample) || !is_replica(sample)) continue;
    const uint32_t owner = desk_.owner(sample).rank;
    if (owner == kNoOwner || lives_.up(owner)) continue;
    take_over(sample, copies_.fastest(sample));
  }
}

void Keeping::found(uint64_t sample, uint32_t tier) {
  if (!copies_.alive(tier) || copies_.has(sample, tier)) return;
  copies_.add(sample, tier);
}

void Keeping::forget(uint64_t sample, uint32_t tier) {
  if (!copies_.has(sample, tier)) return;
  copies_.remove(sample, tier);
  if (!desk_.with_peers || !is_replica(sample) || !copies_.alive(tier)) return;
  replica_bytes_[tier] -= desk_.bytes(sample);
  spare_[tier] += desk_.bytes(sample);
}

void Keeping::drop(uint64_t sample, uint32_t tier, bool missing) {
  forget(sample, tier);
  // The room of a guest goes to others: whatever is left of it must go.
  if (!missing || !desk_.is_owner(sample)) desk_.act(action::Evict{sample, tier});
}

void Keeping::lose_tier(uint32_t tier) {
  copies_.lose_tier(tier, desk_.samples());
  if (desk_.with_peers) replica_bytes_[tier] = 0;
}

}  // namespace foreload
