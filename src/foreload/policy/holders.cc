// SPDX-License-Identifier: Apache-2.0
//
// The part of the policy that knows who has a copy of what: owners, heirs of the dead, neighbours
// on this host, and the guests of this rank, samples that it keeps and does not own.
#include <algorithm>
#include <bit>

#include "foreload/base/random.h"
#include "foreload/policy/policy.h"

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

void Policy::begin_peers() {
  const uint32_t ranks = plan_->job().ranks;
  const uint64_t samples = plan_->sizes().samples();
  const Capacities& capacities = plan_->capacities();
  const auto tiers = static_cast<uint32_t>(tiers_.size());
  peers_.resize(ranks);
  for_peer_.resize(ranks);
  peer_limiters_.assign(ranks, Limiter(settings_.peer_limiter));
  came_.resize(samples);
  cut_off_.resize(samples);
  seen_.resize(samples);
  unsure_ = settings_.given_lists;
  for (const Held& copy : plan_->job().held) {
    seen_[copy.sample] = true;
    if (copy.rank == settings_.rank) came_[copy.sample] = true;
  }
  replica_bytes_.resize(tiers);
  next_victim_.resize(tiers);

  // What owned samples leave free, of everybody.
  std::vector<uint64_t> left(capacities.flat().begin(), capacities.flat().end());
  auto take = [&](uint32_t rank, uint32_t tier, uint64_t size) {
    uint64_t& room = left[size_t{rank} * tiers + tier];
    room -= std::min(room, size);
  };
  for (uint64_t sample = 0; sample < samples; ++sample) {
    const Owner owner = plan_->placement().owner(sample);
    if (owner.rank == kNoOwner) continue;
    take(owner.rank, owner.tier, plan_->sizes()[sample]);
    const uint32_t backing = plan_->placement().backing(sample);
    if (backing != kNoTier) take(owner.rank, backing, plan_->sizes()[sample]);
  }
  const auto own = left.begin() + static_cast<std::ptrdiff_t>(settings_.rank) * tiers;
  spare_.assign(own, own + tiers);
  std::vector<uint64_t> by_rank(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank)
    for (uint32_t tier = 0; tier < tiers; ++tier)
      by_rank[rank] += left[size_t{rank} * tiers + tier];
  const uint64_t roomiest = *std::max_element(by_rank.begin(), by_rank.end());
  for (const uint64_t room : by_rank) {
    const bool any = room > 0 && room >= plan_->sizes().mean();
    room_.push_back(static_cast<uint8_t>(any ? 1 + room / (roomiest / kMostShares + 1) : 0));
  }

  if (settings_.neighbours.empty()) return;
  is_neighbour_.resize(ranks);
  const HoldingRule& rule = plan_->placement().holdings();
  for (const uint32_t rank : settings_.neighbours) {
    is_neighbour_[rank] = true;
    if (!rule.empty() && rule.limits()[size_t{rank} * rule.tiers()] > 0)
      neighbours_have_replicas_ = true;
  }
}

uint32_t Policy::keeper_of(uint64_t sample) const {
  const uint32_t owner = plan_->placement().owner(sample).rank;
  if (owner == kNoOwner || unkept_[sample]) return kNoOwner;
  if (owner == settings_.rank || peers_[owner].up) return owner;
  return heir_of(sample);
}

// Who knows of other deaths may name another one, and only asks in vain.
uint32_t Policy::heir_of(uint64_t sample) const {
  const HoldingRule& rule = plan_->placement().holdings();
  if (const ReaderTable* table = plan_->table(); table != nullptr && !rule.empty()) {
    for (const auto& [rank, count] : counts_of(*table, sample))
      if (peers_[rank].up && rule.tier_of(rank, sample, count) < rule.tiers()) return rank;
  }
  uint32_t best = kNoOwner;
  uint64_t most = 0;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (!peers_[rank].up) continue;
    for (uint64_t share = 0; share < room_[rank]; ++share) {
      const uint64_t score = mix64(mix64(sample) + rank * kMostShares + share);
      if (best != kNoOwner && score < most) continue;
      most = score;
      best = rank;
    }
  }
  return best;
}

Origin Policy::neighbour_with(uint64_t sample) const {
  if (is_neighbour_.empty() || !was_read(sample)) return {};
  const Owner owner = plan_->placement().owner(sample);
  const uint32_t keeper = keeper_of(sample);
  if (keeper != kNoOwner && is_neighbour_[keeper] && (keeper != owner.rank || owner.tier == 0))
    return {Origin::Kind::neighbour, keeper};
  if (neighbours_have_replicas_) return {Origin::Kind::neighbour, kNoOwner};
  return {};
}

// No neighbour has it, or not yet.
void Policy::ask_keeper(BatchPlace place, Actions& actions) {
  const uint64_t sample = entry_of(place)->sample;
  if (copies_[sample] != 0) {  // a tier has taken it meanwhile
    on_its_way_[sample] = OnItsWay::no;
    queue(place);
    wake_waiters(sample, actions);
    return;
  }
  const uint32_t keeper = keeper_of(sample);
  if (keeper == kNoOwner || keeper == settings_.rank) {
    for_source_.push_front(place);
  } else {
    ask(keeper, place);
  }
}

bool Policy::is_owner(uint64_t sample) const {
  return plan_->placement().owner(sample).rank == settings_.rank;
}

bool Policy::is_replica(uint64_t sample) const {
  return !is_owner(sample) && !adopted_.contains(sample);
}

// A second copy of an earlier run, found on a disk.
void Policy::find_replica(const Held& copy) {
  if (replica_tier(*plan_, settings_.rank, copy.sample) != copy.tier) return;
  const uint64_t size = plan_->sizes()[copy.sample];
  if (spare_[copy.tier] < size) return no_room_for_.push_back(copy);
  spare_[copy.tier] -= size;
  replica_bytes_[copy.tier] += size;
  copies_.add(copy.sample, copy.tier);
}

// Whether a sample that has just arrived is kept as a replica. Not in the last epoch.
bool Policy::may_replicate(const Request& request, uint32_t& tier) const {
  if (!with_peers() || request.place.batch == kNoBatch ||
      past_the_end(batches_[request.place.batch - batches_.front().number].epoch + 1))
    return false;
  const uint64_t size = plan_->sizes()[request.sample];
  if (std::none_of(spare_.begin(), spare_.end(), [size](uint64_t room) { return room >= size; }))
    return false;
  tier = replica_tier(*plan_, settings_.rank, request.sample);
  return tier != kNoTier && tier_alive_[tier] && spare_[tier] >= size;
}

// The tier that has room for a sample of a dead rank, or has it.
uint32_t Policy::adopting_tier(uint64_t sample) const {
  if (const auto found = adopted_.find(sample); found != adopted_.end())
    return tier_alive_[found->second] ? found->second : kNoTier;
  const uint64_t size = plan_->sizes()[sample];
  for (uint32_t tier = 0; tier < spare_.size(); ++tier)
    if (tier_alive_[tier] && spare_[tier] >= size) return tier;
  for (uint32_t tier = 0; tier < spare_.size(); ++tier)
    if (tier_alive_[tier] && spare_[tier] + replica_bytes_[tier] >= size) return tier;
  return kNoTier;
}

void Policy::adopt(uint64_t sample, uint32_t tier, Actions& actions) {
  if (!adopted_.emplace(sample, tier).second) return;
  let_replicas_give_way(tier, plan_->sizes()[sample], actions);
  spare_[tier] -= plan_->sizes()[sample];
  ++totals_.adopted;
}

// Until so many bytes are free, or none is left.
void Policy::let_replicas_give_way(uint32_t tier, uint64_t bytes, Actions& actions) {
  uint64_t& next = next_victim_[tier];
  for (uint64_t looked = 0;
       spare_[tier] < bytes && replica_bytes_[tier] > 0 && looked < plan_->sizes().samples();
       ++looked, next = (next + 1) % plan_->sizes().samples()) {
    if ((copies_[next] & TierCopies::bit(tier)) == 0 || !is_replica(next)) continue;
    forget_copy(next, tier);
    ++totals_.gave_way;
    actions.push_back(action::Evict{next, tier});
  }
}

// A tier has taken a guest, or not.
void Policy::guest_placed(uint64_t sample, uint32_t tier, bool ok, bool is_new, Actions& actions) {
  const auto placing = arriving_guests_.find(sample);
  const bool others = --placing->second > 0;
  if (!others) arriving_guests_.erase(placing);
  const uint64_t size = plan_->sizes()[sample];
  if (is_new && is_replica(sample)) {
    ++totals_.replicas;
    replica_bytes_[tier] += size;
    const uint32_t owner = plan_->placement().owner(sample).rank;
    if (owner != kNoOwner && !peers_[owner].up) take_over_replica(sample, tier);
  }
  if (ok || others || (copies_[sample] & TierCopies::bit(tier)) != 0) return;
  spare_[tier] += size;
  if (adopted_.erase(sample) == 0) return;
  --totals_.adopted;
  // There may be room for it, but not in one piece.
  let_replicas_give_way(tier, spare_[tier] + size, actions);
}

// A replica whose owner has died: others count on it now, if this rank is the heir.
void Policy::take_over_replica(uint64_t sample, uint32_t tier) {
  if (keeper_of(sample) != settings_.rank) return;
  adopted_.emplace(sample, tier);
  replica_bytes_[tier] -= plan_->sizes()[sample];
  ++totals_.adopted;
}

void Policy::take_over_replicas() {
  if (std::all_of(replica_bytes_.begin(), replica_bytes_.end(),
                  [](uint64_t bytes) { return bytes == 0; }))
    return;
  // Those of earlier deaths too: the heir may have died now.
  for (uint64_t sample = 0; sample < plan_->sizes().samples(); ++sample) {
    if (copies_[sample] == 0 || !is_replica(sample)) continue;
    const uint32_t owner = plan_->placement().owner(sample).rank;
    if (owner == kNoOwner || peers_[owner].up) continue;
    take_over_replica(sample, static_cast<uint32_t>(std::countr_zero(copies_[sample])));
  }
}

void Policy::forget_copy(uint64_t sample, uint32_t tier) {
  if ((copies_[sample] & TierCopies::bit(tier)) == 0) return;
  copies_.remove(sample, tier);
  if (!with_peers() || !is_replica(sample) || !tier_alive_[tier]) return;
  replica_bytes_[tier] -= plan_->sizes()[sample];
  spare_[tier] += plan_->sizes()[sample];
}

}  // namespace foreload
