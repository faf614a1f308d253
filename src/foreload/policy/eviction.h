// SPDX-License-Identifier: Apache-2.0
//
// Which copies on a crowded tier give way. A rule is a class in a file of its own and a row of the
// table in eviction.cc; PolicySettings::eviction names one.
//
// For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace foreload {

// A crowded tier, as a rule sees it.
struct CrowdedTier {
  uint32_t tier;
  uint64_t samples;                             // in all; numbers are below
  std::function<bool()> crowded;                // more has to go, and something can
  std::function<bool(uint64_t sample)> may_go;  // it is there, and nobody counts on it
  std::function<uint64_t(uint64_t sample)> bytes;
  std::function<void(uint64_t sample)> evict;
};

class Eviction {
 public:
  virtual ~Eviction() = default;
  // Evicts what may go as long as the tier is crowded, or until nothing is left that may go.
  virtual void make_room(const CrowdedTier& tier) = 0;
};

struct EvictionRule {
  std::string_view name;
  std::unique_ptr<Eviction> (*make)(uint32_t tiers);
};

std::span<const EvictionRule> eviction_rules();
// Null if none has that name.
const EvictionRule* find_eviction_rule(std::string_view name);
// REQUIRES: a rule has that name.
std::unique_ptr<Eviction> make_eviction(std::string_view name, uint32_t tiers);

// Samples go in the order of their numbers, round and round.
std::unique_ptr<Eviction> evict_in_turn(uint32_t tiers);
// The largest go, so that as few as can be are lost.
std::unique_ptr<Eviction> evict_largest(uint32_t tiers);

}  // namespace foreload
