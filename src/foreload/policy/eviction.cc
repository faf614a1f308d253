// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/eviction.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace foreload {

std::span<const EvictionRule> eviction_rules() {
  static constexpr std::array kRules{EvictionRule{"in turn", evict_in_turn}};
  return kRules;
}

std::unique_ptr<Eviction> make_eviction(std::string_view name, uint32_t tiers) {
  const auto rule = std::ranges::find(eviction_rules(), name, &EvictionRule::name);
  assert(rule != eviction_rules().end());
  return rule->make(tiers);
}

}  // namespace foreload
