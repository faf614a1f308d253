// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/tier.h"

namespace foreload {

std::string_view name_of(Traffic traffic) {
  constexpr std::array<std::string_view, kTraffics> kNames{"training", "peer", "fill", "drain",
                                                           "checkpoint"};
  return kNames[static_cast<size_t>(traffic)];
}

}  // namespace foreload
