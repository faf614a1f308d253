// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/rank_tiers.h"

#include <algorithm>

namespace foreload::sim {

RankTiers::RankTiers(const RankDesk& desk, RankOperations& operations)
    : desk_(desk), operations_(operations), tiers_(desk.settings.plan->capacities().tiers()) {
  for (Content& tier : tiers_) tier.held.resize(desk_.settings.plan->sizes().samples());
  for (const Held& copy : desk_.settings.held)
    if (copy.rank == desk_.rank) take_in(copy.tier, copy.sample);
}

void RankTiers::take_in(uint32_t tier, uint64_t sample) {
  if (tiers_[tier].held[sample]) return;
  tiers_[tier].held[sample] = true;
  tiers_[tier].bytes += desk_.bytes(sample);
}

void RankTiers::place(uint64_t sample, uint32_t tier) {
  const bool ok = desk_.world.takes(desk_.rank, sample, tier) && tiers_[tier].alive;
  desk_.cluster.write(desk_.rank, tier, desk_.bytes(sample),
                      operations_.keep({.work = Work::place,
                                        .end = ok ? ReadEnd::ok : ReadEnd::permanent,
                                        .sample = sample,
                                        .where = {Origin::Kind::tier, tier}}));
}

bool RankTiers::placed(const Operation& write) {
  const uint32_t tier = write.where.number;
  if (write.end != ReadEnd::ok || !tiers_[tier].alive) return false;
  take_in(tier, write.sample);
  return true;
}

void RankTiers::drop(uint32_t tier, uint64_t sample) {
  if (!tiers_[tier].held[sample]) return;
  tiers_[tier].held[sample] = false;
  tiers_[tier].bytes -= desk_.bytes(sample);
}

bool RankTiers::lose(uint32_t tier) {
  if (!tiers_[tier].alive) return false;
  tiers_[tier].alive = false;
  std::fill(tiers_[tier].held.begin(), tiers_[tier].held.end(), false);
  tiers_[tier].bytes = 0;
  return true;
}

}  // namespace foreload::sim
