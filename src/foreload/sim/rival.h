// SPDX-License-Identifier: Apache-2.0
//
// The wide interface for other people's policies: unlike foreload's own (policy/policy.h), a rival
// may change which samples a rank trains on, may know what other ranks hold, and leaves reading
// ahead to the training loop of the simulation (training.h), which asks it where to read from.
//
// A rival is made for one run. For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/sim/cluster.h"
#include "foreload/sim/scenario.h"
#include "foreload/sim/workload.h"

namespace foreload::sim {

class Rival {
 public:
  virtual ~Rival() = default;

  // Why the rival cannot run this at all, or nothing.
  virtual std::optional<std::string> refuses() const { return std::nullopt; }
  // Every sample is there when it is asked for, without any device.
  virtual bool needs_no_reads() const { return false; }
  // Changes what ranks read in an epoch; called once for each, in order.
  virtual void reorder(uint64_t, EpochLists&) {}

  // Whether training waits until everything that next_fill() gives is in its tier.
  virtual bool fills_before_training() const { return false; }
  // The next sample that the rank reads from the source into a tier of its own, if there is one.
  virtual std::optional<uint32_t> next_fill(uint32_t, uint32_t /*tier*/) { return std::nullopt; }
  virtual void filled(uint32_t /*rank*/, uint32_t /*tier*/, uint32_t /*sample*/) {}

  // Whether a sample is read ahead of the loop, or only when the loop asks for it.
  virtual bool reads_ahead(uint32_t /*rank*/, uint32_t /*sample*/) const { return true; }
  // Whether a staging thread that is free takes the next sample of the batch; otherwise every
  // thread has its own part, each n-th sample, as a loader has that deals samples to workers.
  virtual bool shares_work() const { return false; }
  // Where the rank reads a sample from, now.
  virtual Place choose(uint32_t /*rank*/, uint32_t /*sample*/, const Cluster&) { return {}; }
  // The sample has arrived from there.
  virtual void arrived(uint32_t /*rank*/, uint32_t /*sample*/, const Place&) {}
};

// Names of rivals, in the order of tables.
const std::vector<std::string_view>& rival_names();
// REQUIRES: `name` is one of rival_names(); scenario and workload outlive the rival.
std::unique_ptr<Rival> make_rival(std::string_view name, const Scenario& scenario,
                                  const Workload& workload);

// By subject; make_rival() chooses.
std::unique_ptr<Rival> make_memory_rival(std::string_view name, const Scenario& scenario,
                                         const Workload& workload);
std::unique_ptr<Rival> make_local_rival(std::string_view name, const Scenario& scenario,
                                        const Workload& workload);
std::unique_ptr<Rival> make_nopfs(const Scenario& scenario, const Workload& workload);

}  // namespace foreload::sim
