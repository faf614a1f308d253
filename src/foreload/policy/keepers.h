// SPDX-License-Identifier: Apache-2.0
//
// Who keeps a sample, as far as this rank knows: its owner, or the heir of a dead one, that is who
// has a replica or else room; and which neighbour on this host has it in memory.
//
// For one thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "foreload/policy/first_reads.h"
#include "foreload/policy/sample_states.h"

namespace foreload {

// The tier on which the plan wants a rank to keep a second copy of a sample, or kNoTier.
uint32_t replica_tier(const Plan& plan, uint32_t rank, uint64_t sample);

class Keepers {
 public:
  Keepers(const Desk& desk, const Lives& lives, const FirstReads& reads);

  // Who is asked for the sample; kNoOwner: nobody. REQUIRES: with peers.
  uint32_t keeper_of(uint64_t sample) const;
  // Its keeper does not take it: nobody keeps it.
  void refused(uint64_t sample) { unkept_[sample] = true; }
  bool is_here(uint64_t sample) const { return keeper_of(sample) == desk_.settings.rank; }
  // Of the living, the same for all who know of the same deaths.
  uint32_t heir_of(uint64_t sample) const;
  // The neighbour whose memory should have it; otherwise the source.
  Origin neighbour_with(uint64_t sample) const;
  // By tier of this rank: bytes that owned samples leave free. Empty without peers.
  std::span<const uint64_t> own_room() const { return own_room_; }

 private:
  const Desk& desk_;
  const Lives& lives_;
  const FirstReads& reads_;
  SparseStates<bool> unkept_;
  std::vector<uint8_t> shares_;  // by rank: of what the dead owned
  std::vector<uint64_t> own_room_;
  bool neighbours_have_replicas_ = false;  // in memory, by the plan
};

}  // namespace foreload
