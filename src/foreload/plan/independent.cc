// SPDX-License-Identifier: Apache-2.0
//
// The published scheme, for comparison: every rank keeps what it reads most often, ties broken by
// an order of its own, and knows nothing of the others. The owner of a sample is the holder that
// reads it most often.
#include <vector>

#include "foreload/plan/holdings.h"
#include "foreload/plan/placement.h"
#include "foreload/plan/placement_builder.h"

namespace foreload {

Result<Placement> place_independent(const ReaderTable& table, const Sizes& sizes,
                                    const Capacities& capacities, const PlacementOptions& options) {
  PlacementBuilder builder(PlacementKind::independent, table.samples());
  FORELOAD_TRY(const uint32_t highest, highest_access_count(table, options));
  FORELOAD_TRY(HoldingRule rule,
               fill_by_count(table, sizes, capacities.flat(), highest, {}, options));
  std::vector<ReaderTable::Tally> tallies(options.threads, ReaderTable::Tally(table));
  auto visit = [&](uint64_t first, uint64_t last, unsigned worker) {
    for (uint64_t sample = first; sample < last; ++sample) {
      uint32_t best = 0;
      for (const auto& [rank, count] : tallies[worker].of(sample)) {
        if (count <= best) continue;
        const uint32_t tier = rule.tier_of(rank, sample, count);
        if (tier == rule.tiers()) continue;
        builder.set_owner(sample, {rank, tier});
        best = count;
      }
    }
  };
  FORELOAD_CHECK(for_sample_ranges(table.samples(), options.threads, visit, options.progress));
  builder.set_holdings(std::move(rule));
  return builder.finish();
}

}  // namespace foreload
