// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/rival.h"

namespace foreload::sim {
namespace {

// Every sample is there when it is asked for.
class LowerBound final : public Rival {
 public:
  bool needs_no_reads() const override { return true; }
};

// Reads when asked, preprocesses, computes, one after the other.
class Naive final : public Rival {
 public:
  bool reads_ahead(uint32_t, uint32_t) const override { return false; }
};

// Reads the next batch from the source while this one is consumed, and keeps nothing.
class StagingPool final : public Rival {};

}  // namespace

const std::vector<std::string_view>& rival_names() {
  static const std::vector<std::string_view> names{"lower_bound",          "naive",
                                                   "staging_pool",         "deepio_ordered",
                                                   "deepio_opportunistic", "parallel_staging",
                                                   "lbann_dynamic",        "lbann_preloading",
                                                   "locality_aware",       "nopfs"};
  return names;
}

std::unique_ptr<Rival> make_rival(std::string_view name, const Scenario& scenario,
                                  const Workload& workload) {
  if (name == "lower_bound") return std::make_unique<LowerBound>();
  if (name == "naive") return std::make_unique<Naive>();
  if (name == "staging_pool") return std::make_unique<StagingPool>();
  if (name == "nopfs") return make_nopfs(scenario, workload);
  if (name == "parallel_staging" || name == "locality_aware")
    return make_local_rival(name, scenario, workload);
  return make_memory_rival(name, scenario, workload);
}

}  // namespace foreload::sim
