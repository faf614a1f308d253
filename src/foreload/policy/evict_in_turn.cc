// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "foreload/policy/eviction.h"

namespace foreload {
namespace {

class InTurn : public Eviction {
 public:
  explicit InTurn(uint32_t tiers) : next_(tiers) {}

  void make_room(const CrowdedTier& tier) override {
    uint64_t& next = next_[tier.tier];
    for (uint64_t looked = 0; tier.crowded() && looked < tier.samples;
         ++looked, next = (next + 1) % tier.samples)
      if (tier.may_go(next)) tier.evict(next);
  }

 private:
  std::vector<uint64_t> next_;  // by tier: sample at which to look
};

}  // namespace

std::unique_ptr<Eviction> evict_in_turn(uint32_t tiers) {
  return std::make_unique<InTurn>(tiers);
}

}  // namespace foreload
