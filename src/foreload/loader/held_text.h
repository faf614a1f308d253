// SPDX-License-Identifier: Apache-2.0
//
// What the disks of a rank hold, written small, because every rank of a job learns it of every
// other: for each tier the distances between its samples in a Rice code whose parameter follows
// their mean. A tier that holds every k-th sample takes about log2(k) + 1.5 bits a sample, one that
// holds everything a single bit. Plain functions, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/plan/placement.h"

namespace foreload {

// REQUIRES: ascending by sample, tiers below `tiers`, no sample twice on one tier.
std::string held_text(const std::vector<Held>& held, size_t tiers);

// Appends what held_text() wrote, as copies of `rank`, tier by tier. False if the text is anything
// else; at most `samples` a tier, all of them below it.
bool read_held_text(std::string_view text, uint32_t rank, size_t tiers, uint64_t samples,
                    std::vector<Held>& held);

}  // namespace foreload
