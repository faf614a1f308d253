// SPDX-License-Identifier: Apache-2.0
//
// What the tiers of a simulated rank hold, and the writes into them.
//
// For one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "foreload/sim/rank_desk.h"
#include "foreload/sim/rank_operations.h"

namespace foreload::sim {

class RankTiers {
 public:
  // With the copies that the settings name.
  RankTiers(const RankDesk& desk, RankOperations& operations);

  bool holds(uint32_t tier, uint64_t sample) const { return tiers_[tier].held[sample]; }
  // That it holds now.
  uint64_t bytes(uint32_t tier) const { return tiers_[tier].bytes; }

  // Begins a write, of Work::place.
  void place(uint64_t sample, uint32_t tier);
  // Such a write has ended. Returns whether the copy is there.
  bool placed(const Operation& write);
  // A copy is gone, if there is one.
  void drop(uint32_t tier, uint64_t sample);
  // All copies are gone, and the tier takes no more. Returns false if it was lost before.
  bool lose(uint32_t tier);

 private:
  struct Content {
    std::vector<bool> held;  // by sample
    uint64_t bytes = 0;
    bool alive = true;
  };

  void take_in(uint32_t tier, uint64_t sample);

  const RankDesk& desk_;
  RankOperations& operations_;
  std::vector<Content> tiers_;
};

}  // namespace foreload::sim
