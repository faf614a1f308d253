// SPDX-License-Identifier: Apache-2.0
//
// Which rank passes on to which what rank 0 has for all of them. Private to peers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace foreload::peers {

inline constexpr uint64_t kRanksBelow = 4;  // that a rank has at most

// REQUIRES: not rank 0.
inline uint32_t rank_above(uint32_t rank) {
  return static_cast<uint32_t>((rank - 1) / kRanksBelow);
}

inline std::vector<uint32_t> ranks_below(uint32_t rank, uint32_t ranks) {
  std::vector<uint32_t> below;
  const uint64_t first = rank * kRanksBelow + 1;
  for (uint64_t r = first; r < std::min<uint64_t>(first + kRanksBelow, ranks); ++r)
    below.push_back(static_cast<uint32_t>(r));
  return below;
}

}  // namespace foreload::peers
