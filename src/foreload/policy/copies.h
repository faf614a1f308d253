// SPDX-License-Identifier: Apache-2.0
//
// What this rank has of every sample: on which tiers a copy lies, what is on its way, and what is
// known of its past. One row of bits per sample, and an entry for the few that are on their way.
// Also which tiers still live.
//
// For one thread.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <vector>

#include "foreload/policy/desk.h"
#include "foreload/policy/sample_states.h"

namespace foreload {

// What happens to a sample that no tier has.
enum class OnItsWay : uint8_t {
  no,
  arriving,  // being read from the source or a peer, or queued for that
  placing,   // arrived, on its way into a tier
  expected,  // this rank keeps it; its first reader will push it
};

// What is known of a sample's past, with peers.
enum class Past : uint8_t {
  came,     // it was here, or was read here, at some time
  cut_off,  // in the first epoch it is in a batch that is left out
  seen,     // somebody has read it in this run, or had it before
};

class Copies {
 public:
  static constexpr uint32_t kMostTiers = 16;

  // REQUIRES: at most kMostTiers tiers.
  explicit Copies(const Desk& desk)
      : alive_(desk.tiers(), true),
        on_every_tier_((1u << desk.tiers()) - 1),
        bits_(desk.samples(), desk.tiers() + (desk.with_peers ? 3 : 0)) {
    assert(desk.tiers() <= kMostTiers);
  }

  // One bit per tier, the fastest lowest.
  uint32_t tiers_of(uint64_t sample) const { return bits_[sample] & on_every_tier_; }
  bool has(uint64_t sample) const { return tiers_of(sample) != 0; }
  bool has(uint64_t sample, uint32_t tier) const { return bits_.test(sample, tier); }
  // REQUIRES: has(sample).
  uint32_t fastest(uint64_t sample) const {
    return static_cast<uint32_t>(std::countr_zero(tiers_of(sample)));
  }
  void add(uint64_t sample, uint32_t tier) { bits_.set(sample, tier); }
  void remove(uint64_t sample, uint32_t tier) { bits_.reset(sample, tier); }

  bool alive(uint32_t tier) const { return alive_[tier]; }
  // What the tier had is gone, and it takes nothing any more.
  void lose_tier(uint32_t tier, uint64_t samples) {
    alive_[tier] = false;
    for (uint64_t sample = 0; sample < samples; ++sample) remove(sample, tier);
  }

  OnItsWay on_its_way(uint64_t sample) const { return on_its_way_[sample]; }
  void set(uint64_t sample, OnItsWay state) { on_its_way_[sample] = state; }
  // A seek: nothing arrives any more.
  void forget_arriving() { on_its_way_.forget(OnItsWay::arriving); }

  // REQUIRES: with peers.
  bool is(uint64_t sample, Past past) const { return bits_.test(sample, bit_of(past)); }
  void mark(uint64_t sample, Past past) { bits_.set(sample, bit_of(past)); }

 private:
  uint32_t bit_of(Past past) const {
    return static_cast<uint32_t>(alive_.size()) + static_cast<uint32_t>(past);
  }

  std::vector<bool> alive_;  // by tier
  const uint32_t on_every_tier_;
  SampleBits bits_;
  SparseStates<OnItsWay> on_its_way_;
};

}  // namespace foreload
