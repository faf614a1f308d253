// SPDX-License-Identifier: Apache-2.0
//
// What all parts of one simulated rank share: its settings, the cluster's devices and the world.
// As in the policy, `bytes` are those of the form in which a sample is kept.
//
// For one thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "foreload/plan/plan.h"
#include "foreload/policy/settings.h"
#include "foreload/sim/cluster.h"
#include "foreload/sim/world.h"

namespace foreload::sim {

// Orders that all ranks of a simulation share.
class SharedOrders {
 public:
  explicit SharedOrders(const Order& order) : order_(order) {}
  std::shared_ptr<const EpochOrder> epoch(uint64_t epoch);

 private:
  const Order& order_;
  std::map<uint64_t, std::shared_ptr<const EpochOrder>> orders_;  // the last few
};

struct PolicyRankSettings {
  std::shared_ptr<const Plan> plan;
  PolicySettings policy;
  std::shared_ptr<SharedOrders> orders;
  std::vector<Held> held;
  unsigned decode_threads = 1;
};

struct RankDesk {
  // REQUIRES: cluster and world outlive it.
  RankDesk(PolicyRankSettings with, Cluster& on, World& in)
      : settings(std::move(with)), rank(settings.policy.rank), cluster(on), world(in) {}

  uint64_t bytes(uint64_t sample) const { return settings.plan->sizes()[sample]; }
  uint64_t source_bytes(uint64_t sample) const {
    return makes() ? (*settings.policy.made_from)[sample] : bytes(sample);
  }
  // Whether samples are kept in another form than the source has.
  bool makes() const { return settings.policy.made_from != nullptr; }

  const PolicyRankSettings settings;
  const uint32_t rank;
  Cluster& cluster;
  World& world;
};

}  // namespace foreload::sim
