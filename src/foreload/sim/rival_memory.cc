// SPDX-License-Identifier: Apache-2.0
//
// Rivals that keep samples in memory, the first tier, alone: DeepIO (ordered and opportunistic) and
// LBANN's data store (dynamic and preloading).
#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/random.h"
#include "foreload/sim/partition.h"
#include "foreload/sim/rival.h"

namespace foreload::sim {
namespace {

// Memory is filled first. What is in somebody's memory is read ahead from there.
class Preloaded : public Rival {
 public:
  Preloaded(const Scenario& scenario, const Workload& workload)
      : partition_(scenario, workload, scenario.cluster.tiers.empty() ? 0 : 1) {}

  bool fills_before_training() const override { return true; }
  std::optional<uint32_t> next_fill(uint32_t rank, uint32_t tier) override {
    return partition_.next_fill(rank, tier);
  }
  bool reads_ahead(uint32_t, uint32_t sample) const override { return partition_.keeps(sample); }
  Place choose(uint32_t rank, uint32_t sample, const Cluster&) override {
    return partition_.keeps(sample) ? partition_.place(rank, sample) : Place{};
  }

 protected:
  Partition partition_;
};

// Keeps the order; a sample that is in nobody's memory is read when it is asked for.
class DeepIoOrdered final : public Preloaded {
 public:
  using Preloaded::Preloaded;
};

// Takes samples of its own memory instead of those that nobody has.
class DeepIoOpportunistic final : public Preloaded {
 public:
  DeepIoOpportunistic(const Scenario& scenario, const Workload& workload)
      : Preloaded(scenario, workload),
        seed_(scenario.training.seed),
        ranks_(workload.ranks()),
        kept_(ranks_) {
    for (uint64_t sample = 0; sample < workload.sizes().samples(); ++sample) {
      const auto number = static_cast<uint32_t>(sample);
      if (partition_.keeps(number)) kept_[partition_.rank_of(number)].push_back(number);
    }
  }
  void reorder(uint64_t epoch, EpochLists& lists) override {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      const std::vector<uint32_t>& kept = kept_[rank];
      if (kept.empty()) continue;
      uint64_t position = 0;
      for (uint32_t& sample : lists.of(rank)) {
        ++position;
        if (partition_.keeps(sample)) continue;
        const auto dice = philox(seed_, position, epoch << 32 | rank);
        sample = kept[(uint64_t{dice[0]} << 32 | dice[1]) % kept.size()];
      }
    }
  }

 private:
  uint64_t seed_;
  uint32_t ranks_;
  std::vector<std::vector<uint32_t>> kept_;  // by rank
};

std::optional<std::string> too_large(const Scenario& scenario, const Workload& workload) {
  uint64_t memory = 0;
  if (!scenario.cluster.tiers.empty())
    memory = scenario.cluster.capacity(0) * scenario.cluster.ranks;
  const uint64_t need = workload.sizes().total();
  if (need <= memory) return std::nullopt;
  return fmt::format("the data set ({}) is larger than the memory of all ranks ({})",
                     format_bytes(need), format_bytes(memory));
}

class LbannPreloading final : public Preloaded {
 public:
  LbannPreloading(const Scenario& scenario, const Workload& workload)
      : Preloaded(scenario, workload), refusal_(too_large(scenario, workload)) {}
  std::optional<std::string> refuses() const override { return refusal_; }
  bool reads_ahead(uint32_t, uint32_t) const override { return true; }

 private:
  std::optional<std::string> refusal_;
};

// Whoever reads a sample first keeps it.
class LbannDynamic final : public Rival {
 public:
  LbannDynamic(const Scenario& scenario, const Workload& workload)
      : refusal_(too_large(scenario, workload)), owners_(workload.sizes().samples(), kNobody) {}
  std::optional<std::string> refuses() const override { return refusal_; }
  Place choose(uint32_t rank, uint32_t sample, const Cluster&) override {
    const uint32_t owner = owners_[sample];
    if (owner == kNobody) return {};
    return {owner == rank ? Place::Kind::own : Place::Kind::peer, false, false, 0, owner};
  }
  void arrived(uint32_t rank, uint32_t sample, const Place&) override {
    if (owners_[sample] == kNobody) owners_[sample] = rank;
  }

 private:
  static constexpr uint32_t kNobody = UINT32_MAX;
  std::optional<std::string> refusal_;
  std::vector<uint32_t> owners_;  // by sample
};

}  // namespace

std::unique_ptr<Rival> make_memory_rival(std::string_view name, const Scenario& scenario,
                                         const Workload& workload) {
  if (name == "deepio_ordered") return std::make_unique<DeepIoOrdered>(scenario, workload);
  if (name == "deepio_opportunistic")
    return std::make_unique<DeepIoOpportunistic>(scenario, workload);
  if (name == "lbann_dynamic") return std::make_unique<LbannDynamic>(scenario, workload);
  return std::make_unique<LbannPreloading>(scenario, workload);
}

}  // namespace foreload::sim
