// SPDX-License-Identifier: Apache-2.0
//
// Rivals that fill all their tiers before training and then read locally: parallel data staging,
// where every rank stages for itself and trains on that alone, and locality-aware loading, which
// deals the data set out once and gives each batch's samples to the ranks that have them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "foreload/plan/feistel.h"
#include "foreload/sim/partition.h"
#include "foreload/sim/rival.h"

namespace foreload::sim {
namespace {

// Every rank draws as many samples as there are, with replacement, and stages what it drew as far
// as it fits, without knowing what others stage.
class ParallelStaging final : public Rival {
 public:
  ParallelStaging(const Scenario& scenario, const Workload& workload)
      : samples_(workload.sizes().samples()), seed_(scenario.training.seed) {
    tiers_ = static_cast<uint32_t>(scenario.cluster.tiers.size());
    const auto all = static_cast<double>(samples_);
    const auto drawn =
        static_cast<uint64_t>(std::ceil(all * -std::expm1(all * std::log1p(-1 / all))));
    for (uint32_t rank = 0; rank < workload.ranks(); ++rank) {
      FeistelPermutation order(samples_, seed_, kStream + rank);
      uint64_t next = 0;
      for (uint32_t tier = 0; tier < tiers_; ++tier) {
        next_.push_back(next);
        uint64_t room = scenario.cluster.capacity(tier);
        while (next < drawn && workload.sizes()[order(next)] <= room)
          room -= workload.sizes()[order(next++)];
        ends_.push_back(next);
      }
      orders_.push_back(order);
    }
  }

  std::optional<std::string> refuses() const override {
    if (tiers_ > 0 && ends_.back() > 0) return std::nullopt;
    return "no rank has room for a sample";
  }
  bool fills_before_training() const override { return true; }
  std::optional<uint32_t> next_fill(uint32_t rank, uint32_t tier) override {
    uint64_t& next = next_[rank * tiers_ + tier];
    if (next >= ends_[rank * tiers_ + tier]) return std::nullopt;
    return static_cast<uint32_t>(orders_[rank](next++));
  }
  void reorder(uint64_t epoch, EpochLists& lists) override {
    for (uint32_t rank = 0; rank < orders_.size(); ++rank) {
      const uint64_t staged = ends_[rank * tiers_ + tiers_ - 1];
      if (staged == 0) continue;
      const FeistelPermutation turn(staged, seed_, epoch << 32 | rank);
      uint64_t position = 0;
      for (uint32_t& sample : lists.of(rank))
        sample = static_cast<uint32_t>(orders_[rank](turn(position++ % staged)));
    }
  }
  Place choose(uint32_t rank, uint32_t sample, const Cluster&) override {
    const uint64_t position = orders_[rank].inverse(sample);
    for (uint32_t tier = 0; tier < tiers_; ++tier) {
      if (position < ends_[rank * tiers_ + tier])
        return {Place::Kind::own, false, false, tier, rank};
    }
    return {};
  }

 private:
  static constexpr uint64_t kStream = uint64_t{1} << 63;

  uint64_t samples_;
  uint64_t seed_;
  uint32_t tiers_;
  std::vector<FeistelPermutation> orders_;  // by rank
  std::vector<uint64_t> next_;              // [rank][tier]: positions in the rank's order
  std::vector<uint64_t> ends_;
};

class LocalityAware final : public Rival {
 public:
  LocalityAware(const Scenario& scenario, const Workload& workload)
      : workload_(workload),
        partition_(scenario, workload, static_cast<uint32_t>(scenario.cluster.tiers.size())) {}

  bool fills_before_training() const override { return true; }
  std::optional<uint32_t> next_fill(uint32_t rank, uint32_t tier) override {
    return partition_.next_fill(rank, tier);
  }
  Place choose(uint32_t rank, uint32_t sample, const Cluster&) override {
    return partition_.keeps(sample) ? partition_.place(rank, sample) : Place{};
  }
  // All ranks together train on the same samples in the same step as before.
  void reorder(uint64_t, EpochLists& lists) override {
    const uint32_t ranks = workload_.ranks();
    for (uint64_t step = 0; step < workload_.steps(); ++step) {
      const uint64_t first = step * workload_.batch_size();
      const uint64_t length = workload_.batch_length(step);
      batch_.clear();
      for (uint32_t rank = 0; rank < ranks; ++rank) {
        const auto part = std::as_const(lists).of(rank).subspan(first, length);
        batch_.insert(batch_.end(), part.begin(), part.end());
      }
      given_.assign(ranks, 0);
      homeless_.clear();
      for (const uint32_t sample : batch_) {
        const uint32_t owner = partition_.rank_of(sample);
        if (partition_.keeps(sample) && given_[owner] < length)
          lists.of(owner)[first + given_[owner]++] = sample;
        else
          homeless_.push_back(sample);
      }
      uint32_t rank = 0;
      for (const uint32_t sample : homeless_) {
        while (given_[rank] == length) ++rank;
        lists.of(rank)[first + given_[rank]++] = sample;
      }
    }
  }

 private:
  const Workload& workload_;
  Partition partition_;
  std::vector<uint32_t> batch_;
  std::vector<uint64_t> given_;
  std::vector<uint32_t> homeless_;
};

}  // namespace

std::unique_ptr<Rival> make_local_rival(std::string_view name, const Scenario& scenario,
                                        const Workload& workload) {
  if (name == "parallel_staging") return std::make_unique<ParallelStaging>(scenario, workload);
  return std::make_unique<LocalityAware>(scenario, workload);
}

}  // namespace foreload::sim
