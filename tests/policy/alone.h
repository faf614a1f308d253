// SPDX-License-Identifier: Apache-2.0
//
// The parts of a policy without the policy, so that each can be tried alone.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "foreload/policy/parts.h"

#include "jobs.h"

namespace foreload {

struct Alone : PolicyParts {
  explicit Alone(std::shared_ptr<const Plan> plan, PolicySettings settings = {},
                 std::span<const Held> held = {})
      : PolicyParts(std::move(plan), std::move(settings), held) {
    desk.actions = &actions;
  }
  // Actions of that kind since the last call; all others are forgotten.
  template <class One>
  std::vector<One> take() {
    std::vector<One> taken;
    for (const Action& action : std::exchange(actions, {}))
      if (const One* one = std::get_if<One>(&action)) taken.push_back(*one);
    return taken;
  }
  void learn(uint64_t epoch) { list.learn({epoch, std::move(*desk.plan->order().epoch(epoch))}); }
  // The first sample that the rank owns.
  uint64_t sample_of(uint32_t rank) const {
    uint64_t sample = 0;
    while (desk.owner(sample).rank != rank) ++sample;
    return sample;
  }

  std::vector<Action> actions;
};

// 20 samples of 100 bytes that together `ranks` hold, and some room besides.
inline std::shared_ptr<const Plan> plan_of_peers(uint32_t ranks) {
  Job job = job_of(3, 2000 / ranks + 300);
  job.ranks = ranks;
  return plan_of(job, *Sizes::uniform(20, 100));
}

inline PolicySettings among_peers(uint32_t rank = 0) {
  PolicySettings settings;
  settings.rank = rank;
  settings.peers = true;
  return settings;
}

}  // namespace foreload
