// SPDX-License-Identifier: Apache-2.0
//
// What all parts of one policy share: the plan, the settings, the time of the event being handled,
// and where decisions are written down. Parts ask here, and nowhere else, how large a sample is and
// whose it is: `bytes` are those of the form in which it is kept.
//
// For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "foreload/plan/plan.h"
#include "foreload/policy/actions.h"
#include "foreload/policy/settings.h"

namespace foreload {

struct Desk {
  Desk(std::shared_ptr<const Plan> of, PolicySettings with)
      : plan(std::move(of)),
        settings(std::move(with)),
        with_peers(settings.peers && plan->job().ranks > 1) {}

  template <class One>
  void act(One action) {
    actions->emplace_back(std::move(action));
  }

  uint64_t samples() const { return plan->sizes().samples(); }
  uint64_t bytes(uint64_t sample) const { return plan->sizes()[sample]; }
  uint64_t source_bytes(uint64_t sample) const {
    return makes() ? (*settings.made_from)[sample] : bytes(sample);
  }
  // Memory that a sample takes from its read on until it is kept.
  uint64_t memory_of(uint64_t sample) const {
    return bytes(sample) + (makes() ? source_bytes(sample) : 0);
  }
  bool makes() const { return settings.made_from != nullptr; }
  uint32_t tiers() const { return plan->capacities().tiers(); }
  Owner owner(uint64_t sample) const { return plan->placement().owner(sample); }
  bool is_owner(uint64_t sample) const { return owner(sample).rank == settings.rank; }
  bool past_the_end(uint64_t epoch) const {
    return !settings.endless && epoch >= plan->job().first_epoch + plan->epochs();
  }

  const std::shared_ptr<const Plan> plan;
  const PolicySettings settings;
  const bool with_peers;
  RunTime now{0};
  std::vector<Action>* actions = nullptr;  // of the event being handled
  PolicyTotals totals;
};

}  // namespace foreload
