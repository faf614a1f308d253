// SPDX-License-Identifier: Apache-2.0
//
// Fills room with the samples that its rank reads most often: replicas of `cover`, and all copies
// of `independent`.
#pragma once

#include <cstdint>
#include <span>

#include "foreload/base/result.h"
#include "foreload/plan/placement.h"

namespace foreload {

// A rule under which no tier holds more bytes than its room ([rank][tier]) and at most one step of
// a rank's order less than fits. A rank's own samples (owners[sample] == rank) are left out; owners
// may be empty. REQUIRES: no rank reads a sample more than highest_count times.
Result<HoldingRule> fill_by_count(const ReaderTable& table, const Sizes& sizes,
                                  std::span<const uint64_t> room, uint32_t highest_count,
                                  std::span<const uint32_t> owners,
                                  const PlacementOptions& options);

// The highest count of any rank and sample.
Result<uint32_t> highest_access_count(const ReaderTable& table, const PlacementOptions& options);

// Calls visit(first, last, worker) for ranges that together are all samples, in parallel. Ranges
// start where a tally finds walking fast.
Result<void> for_sample_ranges(
    uint64_t samples, unsigned threads,
    const std::function<void(uint64_t first, uint64_t last, unsigned worker)>& visit,
    const Progress& progress);

}  // namespace foreload
