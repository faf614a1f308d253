// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/eviction.h"

#include <algorithm>
#include <array>
#include <cassert>

namespace foreload {

std::span<const EvictionRule> eviction_rules() {
  static constexpr std::array kRules{EvictionRule{"in turn", evict_in_turn},
                                     EvictionRule{"largest first", evict_largest}};
  return kRules;
}

const EvictionRule* find_eviction_rule(std::string_view name) {
  const auto rule = std::ranges::find(eviction_rules(), name, &EvictionRule::name);
  return rule == eviction_rules().end() ? nullptr : &*rule;
}

std::unique_ptr<Eviction> make_eviction(std::string_view name, uint32_t tiers) {
  const EvictionRule* const rule = find_eviction_rule(name);
  assert(rule != nullptr);
  return rule->make(tiers);
}

}  // namespace foreload
