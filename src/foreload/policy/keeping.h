// SPDX-License-Identifier: Apache-2.0
//
// What this rank keeps, on which tier, and what gives way. It keeps what it owns; with peers also
// guests, in the room that is left: replicas that the plan wants, and what it adopts from the dead.
// Others count on what is adopted, so replicas give way to it. Copies are thrown out here only.
//
// For one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "foreload/policy/eviction.h"
#include "foreload/policy/keepers.h"

namespace foreload {

class Keeping {
 public:
  // `held`: what tiers of this rank hold at the start.
  Keeping(Desk& desk, Copies& copies, const Keepers& keepers, const Lives& lives,
          std::span<const Held> held);
  // What was held and has no room.
  void begin();

  // The tier on which this rank keeps a sample that it owns or adopts; kNoTier: it does not.
  uint32_t tier_of(uint64_t sample) const;
  // The tier that takes a second copy of what this rank owns; kNoTier: none.
  uint32_t second_tier_of(uint64_t sample) const;
  // The tier that has room for a replica that the plan wants; kNoTier: none.
  uint32_t replica_tier_of(uint64_t sample) const;

  // A sample is on its way to a tier. What is not owned takes room that was reserved or adopted.
  void place(uint64_t sample, uint32_t tier);
  void reserve_replica(uint64_t sample, uint32_t tier) { spare_[tier] -= desk_.bytes(sample); }
  void adopt(uint64_t sample, uint32_t tier);
  // A tier has taken it, or not. False if that tier has not got it now.
  bool placed(const event::Placed& e);
  uint64_t placing_bytes() const { return placing_bytes_; }  // to tiers other than the first

  // Somebody else has put a copy there, for as long as it stays. REQUIRES: this rank owns the
  // sample, or has no peers.
  void found(uint64_t sample, uint32_t tier);
  // A copy is not there any more.
  void forget(uint64_t sample, uint32_t tier);
  // And whatever is left of it must go, unless it is known that nothing is.
  void drop(uint64_t sample, uint32_t tier, bool missing);
  void lose_tier(uint32_t tier);
  // Somebody has died: replicas of what it owned may be what others count on now.
  void take_over_replicas();

 private:
  // A sample that this rank keeps and does not own.
  struct Guest {
    uint32_t adopted_on = kNoTier;  // otherwise a replica, that nobody but this rank counts on
    uint32_t placing = 0;           // how often it is on its way to a tier
  };

  bool is_adopted(uint64_t sample) const;
  bool is_replica(uint64_t sample) const;
  uint32_t adopting_tier(uint64_t sample) const;
  void find(const Held& copy);
  void guest_placed(uint64_t sample, uint32_t tier, bool ok, bool is_new);
  void take_over(uint64_t sample, uint32_t tier);
  // Replicas give way until so many bytes are free, or none is left.
  void make_room(uint32_t tier, uint64_t bytes);

  Desk& desk_;
  Copies& copies_;
  const Keepers& keepers_;
  const Lives& lives_;
  std::unique_ptr<Eviction> eviction_;
  uint64_t placing_bytes_ = 0;
  std::vector<Held> no_room_for_;        // replicas found at the start
  std::vector<uint64_t> spare_;          // by tier: bytes for guests; empty without peers
  std::vector<uint64_t> replica_bytes_;  // by tier: of replicas that can give way
  std::map<uint64_t, Guest> guests_;     // by sample; of replicas those on their way only
};

}  // namespace foreload
