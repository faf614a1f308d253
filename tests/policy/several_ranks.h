// SPDX-License-Identifier: Apache-2.0
//
// Several ranks of the simulator with loops that take their batches. Ranks may be killed, stopped,
// cut off or slow, when the test says so; each batch is compared with the reading list, and what no
// policy may ever do is a failure (conduct.h). Faults at random: tests/sim/faults_test.cc.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/sim/policy_rank.h"

#include "../sim/conduct.h"
#include "../sim/reading_list.h"
#include "jobs.h"

namespace foreload {

struct SeveralSettings {
  PolicySettings policy;
  double step = 0.004;          // seconds that the loop computes per batch
  bool in_step = true;          // all ranks finish a step before the next
  uint32_t ranks_per_host = 1;  // that read each other's memory in place
};

// A few batches ahead, so that an epoch is nearly over before the next one begins.
inline SeveralSettings narrow() {
  SeveralSettings settings;
  settings.policy.window_bytes = 1024;
  return settings;
}

class SeveralRanks : private sim::World {
 public:
  struct Rank {
    uint64_t epochs = 0;  // of which it has batches
    RunTime longest_wait{0};
    bool computing = false;
    bool computed = false;  // and waits for the others
    bool missed = false;    // it was stopped when it had computed
    uint64_t batch = 0;
    uint64_t consumed = 0;
    RunTime waiting_since{0};
    sim::ReadingList list;
    sim::Conduct conduct;
  };

  SeveralRanks(std::shared_ptr<const Plan> plan, SeveralSettings settings)
      : plan_(std::move(plan)),
        settings_(std::move(settings)),
        cluster_(devices(), /*seed=*/1, /*most_reads=*/1024) {
    World& world = *this;
    const auto orders = std::make_shared<sim::SharedOrders>(plan_->order());
    PolicySettings policy = settings_.policy;
    policy.peers = true;
    for (policy.rank = 0; policy.rank < plan_->job().ranks; ++policy.rank) {
      policy.neighbours.clear();
      for (uint32_t other = 0; other < plan_->job().ranks; ++other)
        if (other != policy.rank && node_of(other) == node_of(policy.rank))
          policy.neighbours.push_back(other);
      ranks_.push_back(
          {.list = {*plan_, policy.rank, {}, 0}, .conduct = sim::Conduct(*plan_, policy)});
      drivers_.push_back(std::make_unique<sim::PolicyRank>(
          sim::PolicyRankSettings{
              .plan = plan_, .policy = policy, .orders = orders, .held = plan_->job().held},
          cluster_, world));
    }
    for (const auto& rank : drivers_) rank->peers().know(drivers_);
    for (const auto& rank : drivers_) rank->begin();
  }

  // Until nothing happens any more, at most for ten hours.
  void run() {
    sim::Agenda& agenda = cluster_.agenda();
    while (!agenda.empty() && agenda.now() < 36'000) {
      const uint32_t slot = agenda.next();
      if (const auto due = due_.find(slot); due != due_.end())
        std::exchange(due->second, nullptr)();
      else if (!cluster_.owns(slot))
        drivers_[slot - drivers_.front()->timer_slot()]->tell(event::Timer{});
      else if (const auto token = cluster_.woken(slot); token && (*token & kComputed) != 0)
        computed(static_cast<uint32_t>(*token));
      else if (token)
        drivers_[sim::RankOperations::rank_of(*token)]->ended(*token);
      for (size_t i = 0; i < once_.size(); ++i)
        if (once_[i].first && once_[i].first()) {
          once_[i].first = nullptr;
          once_[i].second();
        }
    }
  }
  RunTime now() const { return RunTime(static_cast<int64_t>(cluster_.now() * 1e9)); }
  void at(RunTime when, std::function<void()> what) {
    const uint32_t slot = cluster_.agenda().add();
    due_[slot] = std::move(what);
    cluster_.agenda().set(slot, std::chrono::duration<double>(when).count());
  }
  // As soon as it is so.
  void once(std::function<bool()> condition, std::function<void()> what) {
    once_.emplace_back(std::move(condition), std::move(what));
  }
  void kill(uint32_t rank) {
    drivers_[rank]->life().die();
    if (settings_.in_step) end_common_step();
  }
  // Nothing is done and nothing heard until it is woken; what was sent to it waits.
  void stop(uint32_t rank) {
    drivers_[rank]->life().stop();
    if (settings_.in_step) end_common_step();
  }
  void wake(uint32_t rank) {
    drivers_[rank]->life().wake();
    if (std::exchange(ranks_[rank].missed, false)) computed(rank);
    go_on(rank);
  }
  void cut(uint32_t a, uint32_t b) { cut_.insert(std::minmax(a, b)); }
  // All that it sends takes so much longer.
  void slow_down(uint32_t rank, double seconds) { slower_by_[rank] = seconds; }

  sim::PolicyRank& driver(uint32_t rank) { return *drivers_[rank]; }
  PolicyTotals totals(uint32_t rank) const { return drivers_[rank]->policy().totals(); }
  // The rank got exactly its lists of all epochs, and left nothing behind.
  void expect_lists(uint32_t rank) const {
    EXPECT_EQ(ranks_[rank].consumed, ranks_[rank].list.batches()) << "rank " << rank;
    EXPECT_TRUE(ranks_[rank].conduct.idle()) << "rank " << rank;
  }

  std::vector<Rank> ranks_;
  uint64_t source_reads_ = 0;
  uint64_t pushes_ = 0;
  uint64_t requests_ = 0;
  uint64_t read_in_place_ = 0;
  std::set<uint64_t> unreadable_;                            // samples that the source cannot give
  std::function<void(uint32_t from, uint32_t to)> on_push_;  // as one leaves

 private:
  static constexpr uint64_t kComputed = uint64_t{1} << 62;  // tokens of the loops

  sim::ClusterSettings devices() const {
    sim::ClusterSettings settings;
    settings.ranks = plan_->job().ranks;
    settings.ranks_per_node = settings_.ranks_per_host;
    settings.network_latency = 250e-6;
    settings.preprocess = 1e5;
    settings.source.curve = Curve::flat(1e9);
    settings.source.latency = {0.0075, 0.2};
    settings.tiers.resize(plan_->capacities().tiers());
    for (sim::TierSettings& tier : settings.tiers) {
      tier.read.curve = Curve::flat(1e9);
      tier.read.latency.mean = 50e-6;
    }
    return settings;
  }
  uint32_t node_of(uint32_t rank) const { return rank / settings_.ranks_per_host; }
  bool done(uint32_t rank) const { return ranks_[rank].consumed == ranks_[rank].list.batches(); }

  // The loop takes a batch, computes, and comes back for the next.
  void go_on(uint32_t number) {
    Rank& rank = ranks_[number];
    auto& ready = drivers_[number]->batches().ready();
    if (rank.computing || ready.empty() || drivers_[number]->life().stopped()) return;
    rank.batch = ready.front().number;
    ready.pop_front();
    rank.computing = true;
    cluster_.wait(settings_.step, kComputed | number);
  }
  void computed(uint32_t number) {
    if (drivers_[number]->life().dead()) return;
    if (drivers_[number]->life().stopped()) {
      ranks_[number].missed = true;
      return;
    }
    ranks_[number].computed = true;
    if (settings_.in_step)
      end_common_step();
    else
      end_step(number);
  }
  void end_common_step() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      if (!drivers_[rank]->life().dead() && !drivers_[rank]->life().stopped() &&
          !ranks_[rank].computed && !done(rank))
        return;
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      if (!drivers_[rank]->life().dead() && ranks_[rank].computed) end_step(rank);
  }
  void end_step(uint32_t number) {
    Rank& rank = ranks_[number];
    rank.computing = rank.computed = false;
    rank.waiting_since = now();
    ++rank.consumed;
    drivers_[number]->tell(event::Consumed{rank.batch});
    go_on(number);
  }

  void heard(uint32_t rank, const Event& event) override {
    const auto& reads = ranks_[rank].conduct.reads();
    if (const auto* e = std::get_if<event::ReadEnded>(&event); e && e->end == ReadEnd::ok)
      if (const auto read = reads.find(e->request); read != reads.end())
        read_in_place_ += read->second.from.kind == Origin::Kind::neighbour;
    ranks_[rank].conduct.heard(event);
  }
  void pass_on(uint32_t rank, std::vector<Action>& actions) override {
    for (const Action& action : actions) {
      if (const auto wrong = ranks_[rank].conduct.decided(action)) ADD_FAILURE() << *wrong;
      if (const auto* push = std::get_if<action::SendPush>(&action)) {
        ++pushes_;
        if (on_push_) on_push_(rank, push->rank);
      } else if (const auto* read = std::get_if<action::Read>(&action)) {
        requests_ += read->from.kind == Origin::Kind::peer;
      }
    }
  }
  sim::Fate fate(uint32_t, const action::Read& read) override {
    if (read.from.kind != Origin::Kind::source) return {};
    ++source_reads_;
    return {.end = unreadable_.contains(read.sample) ? ReadEnd::permanent : ReadEnd::ok};
  }
  double delay(uint32_t from, uint32_t) override { return slower_by_[from]; }
  sim::Arrival arrival(uint32_t from, uint32_t to, uint64_t) override {
    return cut_.contains(std::minmax(from, to)) ? sim::Arrival::never : sim::Arrival::whole;
  }
  void delivered(uint32_t number, const action::OpenBatch& batch,
                 const std::vector<uint64_t>& samples) override {
    Rank& rank = ranks_[number];
    if (const auto wrong = rank.list.delivered(batch, samples, skipped_)) ADD_FAILURE() << *wrong;
    rank.epochs = batch.epoch + 1;
    if (!rank.computing)
      rank.longest_wait = std::max(rank.longest_wait, now() - rank.waiting_since);
  }
  void ready(uint32_t rank) override { go_on(rank); }
  void failed(uint32_t, const action::Fail& a) override {
    ADD_FAILURE() << "sample " << a.sample << " failed";
  }
  void skipped(uint32_t rank, const action::Skip& a) override { skipped_.insert({rank, a.sample}); }

  const std::shared_ptr<const Plan> plan_;
  const SeveralSettings settings_;
  sim::Cluster cluster_;
  std::vector<std::unique_ptr<sim::PolicyRank>> drivers_;
  std::map<uint32_t, std::function<void()>> due_;  // by slot
  std::vector<std::pair<std::function<bool()>, std::function<void()>>> once_;
  std::set<std::pair<uint32_t, uint32_t>> cut_;
  std::map<uint32_t, double> slower_by_;             // by rank, in seconds
  std::set<std::pair<uint32_t, uint64_t>> skipped_;  // {rank, sample}
};

}  // namespace foreload
