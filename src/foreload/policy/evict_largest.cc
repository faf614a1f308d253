// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "foreload/policy/eviction.h"

namespace foreload {
namespace {

class LargestFirst : public Eviction {
 public:
  void make_room(const CrowdedTier& tier) override {
    if (!tier.crowded()) return;
    candidates_.clear();
    for (uint64_t sample = 0; sample < tier.samples; ++sample)
      if (tier.may_go(sample)) candidates_.emplace_back(tier.bytes(sample), sample);
    // A heap: mostly the first few are enough. Of equals the later one goes, so that the order is
    // the same everywhere.
    std::ranges::make_heap(candidates_);
    while (!candidates_.empty() && tier.crowded()) {
      std::ranges::pop_heap(candidates_);
      tier.evict(candidates_.back().second);
      candidates_.pop_back();
    }
  }

 private:
  std::vector<std::pair<uint64_t, uint64_t>> candidates_;  // bytes, sample; kept for its memory
};

}  // namespace

std::unique_ptr<Eviction> evict_largest(uint32_t /*tiers*/) {
  return std::make_unique<LargestFirst>();
}

}  // namespace foreload
