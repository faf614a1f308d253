// SPDX-License-Identifier: Apache-2.0
//
// Owners without counts, for data sets whose reader table would not fit in memory.
#include <algorithm>
#include <memory>
#include <vector>

#include "foreload/base/wide.h"
#include "foreload/plan/placement.h"
#include "foreload/plan/placement_builder.h"

namespace foreload {
namespace {

// Keeps the permutation of owners apart from those of epochs under the same seed.
constexpr uint64_t kOwnerKey = 0x6f776e657273;  // "owners"

// Samples that each rank's tier gets if `left` are to be dealt: all that fit, or a fair share.
std::vector<uint64_t> deal(const Capacities& capacities, uint32_t tier, uint64_t mean,
                           uint64_t left) {
  std::vector<uint64_t> slots(capacities.ranks());
  uint128_t total = 0;
  for (uint32_t rank = 0; rank < capacities.ranks(); ++rank) {
    slots[rank] = capacities.at(rank, tier) / mean;
    total += slots[rank];
  }
  if (total <= left) return slots;
  // Shares are differences of rounded prefix sums, so that they add up exactly.
  uint128_t before = 0;
  for (uint64_t& slot : slots) {
    const uint128_t after = before + slot;
    slot = static_cast<uint64_t>(after * left / total - before * left / total);
    before = after;
  }
  return slots;
}

}  // namespace

Placement place_computed(const Sizes& sizes, const Capacities& capacities, uint64_t seed) {
  PlacementBuilder builder(PlacementKind::computed, 0);
  auto computed = std::make_shared<Placement::Computed>(
      Placement::Computed{FeistelPermutation(sizes.samples(), seed ^ kOwnerKey, 0), {}, {}, {}, 1});
  const uint64_t mean = std::max<uint64_t>(1, sizes.mean());
  uint64_t used = 0;
  for (uint32_t tier = 0; tier < capacities.tiers(); ++tier) {
    const auto slots = deal(capacities, tier, mean, sizes.samples() - used);
    for (uint32_t rank = 0; rank < capacities.ranks(); ++rank) {
      if (slots[rank] == 0) continue;
      used += slots[rank];
      computed->tiers.push_back({rank, tier});
      computed->ends.push_back(used);
    }
  }
  // Twice as many entries as tiers make the expected number of steps after the first guess
  // constant.
  const uint64_t entries = std::max<uint64_t>(1, 2 * computed->ends.size());
  computed->guide_width = used / entries + 1;
  uint32_t i = 0;
  for (uint64_t slot = 0; slot < used; slot += computed->guide_width) {
    while (slot >= computed->ends[i]) ++i;
    computed->guide.push_back(i);
  }
  builder.set_computed(std::move(computed));
  return builder.finish();
}

}  // namespace foreload
