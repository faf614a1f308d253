// SPDX-License-Identifier: Apache-2.0
//
// Several ranks' policies among random faults: ranks that die, pairs that cannot reach each other
// any more, source reads that fail, reads that are late. The seed decides everything.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/sim/policy_rank.h"

namespace foreload::sim {

class FaultyCluster : public World {
 public:
  explicit FaultyCluster(uint64_t seed) : random_(seed) {
    ranks_count_ = static_cast<uint32_t>(2 + random_() % 3);
    make_plan();
    make_ranks();
  }

  // What went wrong, or nothing.
  std::optional<std::string> run() {
    for (const auto& rank : ranks_) rank->begin();
    uint64_t wakes = 0;
    while (!complaint_ && !finished()) {
      if (cluster_->agenda().empty()) {
        complain("nothing is under way, and not all is delivered");
        break;
      }
      if (cluster_->now() > allowed_seconds_ || ++wakes > 2'000'000) {
        complain(fmt::format("not done after {:.1f} s, {:.1f} s are explained", cluster_->now(),
                             allowed_seconds_));
        break;
      }
      wake(cluster_->agenda().next());
    }
    return complaint_;
  }

 private:
  static constexpr uint64_t kComputed = uint64_t{1} << 62;

  bool chance(double share) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < share;
  }
  void complain(std::string what) {
    if (!complaint_) complaint_ = std::move(what);
  }

  void make_plan() {
    const uint64_t samples = ranks_count_ + random_() % 80;
    std::vector<uint64_t> sizes(samples);
    for (auto& size : sizes) size = random_() % 500;
    Job job;
    job.ranks = ranks_count_;
    job.epochs = 1 + random_() % 4;
    job.seed = random_();
    job.batching = {1 + random_() % 9, false};
    job.tiers = {{{"memory", random_() % (samples * 200), 2}, {"disk", random_() % 10'000, 1}}};
    plan_ = std::make_shared<const Plan>(
        std::move(*Plan::make(job, *Sizes::of(std::move(sizes)), {.threads = 1})));
    error_share_ = chance(0.5) ? 0.05 : 0;
    delay_share_ = chance(0.5) ? 0.05 : 0;
    kill_share_ = chance(0.5) ? 0.02 : 0;
    cut_share_ = chance(0.5) ? 0.05 : 0;
  }

  void make_ranks() {
    ClusterSettings cluster;
    cluster.ranks = ranks_count_;
    cluster.network = 1e7;
    cluster.network_latency = 1e-4;
    cluster.source.curve = *Curve::create({{1, 1e4}, {8, 5e4}});
    for (const double rate : {1e7, 1e5}) {
      TierSettings tier;
      tier.read.curve = Curve::flat(rate);
      tier.write = Curve::flat(rate);
      cluster.tiers.push_back(tier);
    }
    cluster_ = std::make_unique<Cluster>(cluster, random_(), 1024);
    weather_ = cluster_->agenda().add();
    auto orders = std::make_shared<SharedOrders>(plan_->order());
    loops_.resize(ranks_count_);
    const uint64_t window = 500 + random_() % 8000;
    for (uint32_t rank = 0; rank < ranks_count_; ++rank) {
      PolicySettings policy;
      policy.rank = rank;
      policy.peers = true;
      policy.window_bytes = window;
      policy.ahead_bytes = 2000;
      policy.source_limiter = {1, 8, 4};
      policy.tries = 20;
      ranks_.push_back(std::make_unique<PolicyRank>(
          PolicyRankSettings{.plan = plan_, .policy = policy, .orders = orders}, *cluster_, *this));
    }
    for (const auto& rank : ranks_) rank->know(ranks_);
    for (uint64_t epoch = 0; epoch < plan_->epochs(); ++epoch)
      batches_ += plan_->job().batching.batches(plan_->sharding(epoch).per_rank());
    allowed_seconds_ = 60 + static_cast<double>(plan_->sizes().total() * plan_->epochs()) / 2e3;
    cluster_->agenda().set(weather_, 0.02);
  }

  bool finished() const {
    for (uint32_t rank = 0; rank < ranks_count_; ++rank)
      if (!ranks_[rank]->dead() && loops_[rank].consumed < batches_) return false;
    return true;
  }

  void wake(uint32_t slot) {
    if (slot == weather_) return change_weather();
    const uint32_t first_timer = ranks_.front()->timer_slot();
    if (!cluster_->owns(slot)) return ranks_[slot - first_timer]->ring();
    const auto token = cluster_->woken(slot);
    if (!token) return;
    if ((*token & kComputed) == 0) return ranks_[PolicyRank::rank_of(*token)]->ended(*token);
    const auto rank = static_cast<uint32_t>(*token);
    Loop& loop = loops_[rank];
    ++loop.consumed;
    loop.computing = false;
    ranks_[rank]->consumed(loop.batch);
    go_on(rank);
  }

  void go_on(uint32_t rank) {
    Loop& loop = loops_[rank];
    if (loop.computing || ranks_[rank]->ready().empty() || ranks_[rank]->dead()) return;
    loop.batch = ranks_[rank]->ready().front().number;
    ranks_[rank]->ready().pop_front();
    loop.computing = true;
    cluster_->wait(0.002, kComputed | rank);
  }

  void change_weather() {
    if (chance(kill_share_)) {
      ranks_[random_() % ranks_count_]->die();
      allowed_seconds_ += 120;
    }
    if (chance(cut_share_)) {
      const auto a = static_cast<uint32_t>(random_() % ranks_count_);
      const auto b = static_cast<uint32_t>(random_() % ranks_count_);
      cut_.insert({a, b});
      cut_.insert({b, a});
      allowed_seconds_ += 120;
    }
    if (++changes_ < 60) cluster_->agenda().set(weather_, cluster_->now() + 0.02);
  }

  // World.

  Fate fate(uint32_t, const action::Read& read) override {
    Fate fate;
    if (read.from.kind == Origin::Kind::source && chance(error_share_)) {
      fate.end = ReadEnd::transient;
      allowed_seconds_ += 2;
    }
    if (chance(delay_share_)) {
      fate.delay = std::exponential_distribution<double>(4)(random_);
      allowed_seconds_ += fate.delay;
    }
    return fate;
  }
  bool reaches(uint32_t from, uint32_t to) override { return !cut_.contains({from, to}); }
  void ready(uint32_t rank) override { go_on(rank); }

  void delivered(uint32_t rank, const action::OpenBatch& batch,
                 const std::vector<uint64_t>& filled) override {
    if (batch.batch != loops_[rank].next++)
      complain(fmt::format("rank {}: batch {} is out of turn", rank, batch.batch));
    const auto order = std::move(*plan_->order().epoch(batch.epoch));
    std::vector<uint64_t> expected(batch.samples.size());
    read_list(*order, plan_->sharding(batch.epoch), rank, batch.first, expected);
    if (filled != expected) complain(fmt::format("rank {}: batch {} is wrong", rank, batch.batch));
    for (uint32_t tier = 0; tier < plan_->capacities().tiers(); ++tier) {
      if (ranks_[rank]->held_bytes(tier) > plan_->capacities().at(rank, tier))
        complain(fmt::format("rank {}: tier {} is too full", rank, tier));
    }
  }
  void failed(uint32_t rank, const action::Fail& fail) override {
    complain(fmt::format("rank {}: sample {} was given up", rank, fail.sample));
  }

  struct Loop {
    bool computing = false;
    uint64_t batch = 0;
    uint64_t consumed = 0;
    uint64_t next = 0;
  };

  std::mt19937_64 random_;
  uint32_t ranks_count_ = 2;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Cluster> cluster_;
  std::vector<std::unique_ptr<PolicyRank>> ranks_;
  std::vector<Loop> loops_;
  uint32_t weather_ = 0;  // slot
  int changes_ = 0;
  std::set<std::pair<uint32_t, uint32_t>> cut_;
  double error_share_ = 0;
  double delay_share_ = 0;
  double kill_share_ = 0;
  double cut_share_ = 0;
  uint64_t batches_ = 0;
  double allowed_seconds_ = 0;
  std::optional<std::string> complaint_;
};

}  // namespace foreload::sim
