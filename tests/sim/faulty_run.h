// SPDX-License-Identifier: Apache-2.0
//
// One rank's policy among random faults, on modelled devices: reads that fail, are late or never
// end, copies that are damaged, tiers that refuse, slow down or vanish, samples that cannot be had.
// The seed decides everything. What must hold whatever happens is checked while it runs.
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

// A way to be wrong, put between the policy and its driver.
enum class Sabotage {
  none,
  lose_read,        // an action is forgotten
  repeat_deliver,   // a batch is delivered twice
  swap_deliveries,  // two batches change places
  wrong_sample,     // another sample is read into a place
  forget_copy,      // the source is read although a copy is at hand
  crowd_tier,       // what belongs onto the disk goes into memory
  lose_decode,      // a sample is never decoded, its batch never complete
};

class FaultyRun : public World {
 public:
  FaultyRun(uint64_t seed, Sabotage sabotage = Sabotage::none)
      : random_(seed), sabotage_(sabotage) {
    make_job();
    make_rank();
  }

  // What went wrong, or nothing.
  std::optional<std::string> run() {
    uint64_t batches = 0;
    for (uint64_t epoch = 0; epoch < plan_->epochs(); ++epoch)
      batches += plan_->job().batching.batches(plan_->sharding(epoch).per_rank());
    rank_->begin();
    loop();
    uint64_t wakes = 0;
    while (!complaint_ && !gave_up_ && consumed_ < batches) {
      if (cluster_->agenda().empty()) {
        complain(fmt::format("nothing is under way after {} of {} batches", consumed_, batches));
        break;
      }
      // What was slowed down explains the time it takes; beyond that is a wait nobody asked for.
      if (cluster_->now() > allowed_seconds_ || ++wakes > 400'000) {
        complain(fmt::format("{} of {} batches after {:.1f} s, {:.1f} s are explained", consumed_,
                             batches, cluster_->now(), allowed_seconds_));
        break;
      }
      const uint32_t slot = cluster_->agenda().next();
      if (slot == weather_) {
        change_weather();
      } else if (slot == rank_->timer_slot()) {
        rank_->ring();
      } else if (const auto token = cluster_->woken(slot)) {
        if (*token == kComputed) {
          ++consumed_;
          computing_ = false;
          rank_->consumed(computed_);
        } else {
          rank_->ended(*token);
        }
      }
      loop();
      check_capacity();
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

  void make_job() {
    const uint64_t samples = 1 + random_() % 60;
    std::vector<uint64_t> sizes(samples);
    for (auto& size : sizes) size = random_() % 500;
    Job job;
    job.epochs = 1 + random_() % 4;
    job.seed = random_();
    job.batching = {1 + random_() % 9, random_() % 4 == 0};
    job.tiers = {
        {{"memory", random_() % (samples * 300), 2}, {"disk", random_() % (samples * 300), 1}}};
    plan_ = std::make_shared<const Plan>(
        std::move(*Plan::make(job, *Sizes::of(std::move(sizes)), {.threads = 1})));
    for (uint64_t sample = 0; sample < samples; ++sample) {
      if (chance(0.01)) bad_.insert(sample);
    }
    error_share_ = chance(0.5) ? 0.1 : 0;
    delay_share_ = chance(0.5) ? 0.05 : 0;
    hang_share_ = chance(0.3) ? 0.01 : 0;
    damage_share_ = chance(0.5) ? 0.1 : 0;
    refuse_share_ = chance(0.3) ? 0.2 : 0;
  }

  void make_rank() {
    ClusterSettings cluster;
    cluster.source.curve = *Curve::create({{1, 1e4}, {8, 5e4}});
    if (chance(0.5)) cluster.source.latency = {0.01, 0.5};
    for (const char* name : {"memory", "disk"}) {
      TierSettings tier;
      tier.name = name;
      tier.read.curve = Curve::flat(name[0] == 'm' ? 1e7 : 1e5);
      if (name[0] == 'd') tier.write = Curve::flat(1e5);
      cluster.tiers.push_back(tier);
    }
    cluster_ = std::make_unique<Cluster>(cluster, random_(), 256);
    weather_ = cluster_->agenda().add();
    PolicySettings policy;
    policy.window_bytes = random_() % 8000;
    policy.ahead_bytes = random_() % 2000;
    policy.source_limiter = {1, 8, 1 + static_cast<unsigned>(random_() % 8)};
    policy.skip_bad_samples = chance(0.5);
    policy.decode = sabotage_ == Sabotage::lose_decode || chance(0.5);
    if (chance(0.3)) policy.hedge_share = 0.5;
    skips_ = policy.skip_bad_samples;
    tries_ = policy.tries;
    PolicyRankSettings settings{.plan = plan_,
                                .policy = policy,
                                .orders = std::make_shared<SharedOrders>(plan_->order()),
                                .decode_threads = 2,
                                .decode_rate = 1e6};
    rank_ = std::make_unique<PolicyRank>(std::move(settings), *cluster_, *this);
    // Everything once over the slowest device, reads one at a time, and some for each batch.
    for (uint64_t epoch = 0; epoch < plan_->epochs(); ++epoch) allowed_seconds_ += 5;
    allowed_seconds_ += static_cast<double>(plan_->sizes().total() * plan_->epochs()) / 2e3;
    cluster_->agenda().set(weather_, 0.05);
  }

  // For a while disks get slower and faster, and now and then a tier is gone.
  void change_weather() {
    const bool last = ++changes_ == 40;
    if (last || chance(0.2)) {
      const bool slow = !last && chance(0.5);
      cluster_->tier(0, 1).set_speed(cluster_->agenda(), slow ? 0.05 : 1);
      if (slow) allowed_seconds_ += 2;
    }
    if (chance(0.01)) rank_->lose_tier(static_cast<uint32_t>(random_() % 2));
    if (!last) cluster_->agenda().set(weather_, cluster_->now() + 0.1);
  }

  void loop() {
    if (computing_ || rank_->ready().empty()) return;
    computed_ = rank_->ready().front().number;
    rank_->ready().pop_front();
    computing_ = true;
    cluster_->wait(0.002, kComputed);
  }

  void check_capacity() {
    for (uint32_t tier = 0; tier < plan_->capacities().tiers(); ++tier) {
      if (rank_->held_bytes(tier) > plan_->capacities().at(0, tier))
        complain(fmt::format("tier {} holds {} of {} bytes", tier, rank_->held_bytes(tier),
                             plan_->capacities().at(0, tier)));
    }
  }

  // World.

  Fate fate(uint32_t, const action::Read& read) override {
    const bool source = read.from.kind == Origin::Kind::source;
    if (source && !read.hedge) {
      for (uint32_t tier = 0; tier < plan_->capacities().tiers(); ++tier) {
        if (rank_->holds(tier, read.sample))
          complain(
              fmt::format("sample {} is read from the source, tier {} has it", read.sample, tier));
      }
    }
    Fate fate;
    if (source && bad_.contains(read.sample)) {
      blame_[read.sample] += tries_;
      fate.end = ReadEnd::permanent;
      return fate;
    }
    if (source && chance(hang_share_)) {
      fate.hangs = true;
      blame_[read.sample] += tries_ - 1;
      allowed_seconds_ += std::chrono::duration<double>(read.deadline).count() + 2;
    } else if (source && chance(error_share_)) {
      fate.end = chance(0.7) ? ReadEnd::transient : ReadEnd::throttled;
      blame_[read.sample] += 1;
      allowed_seconds_ += 0.5;
    } else if (!source && chance(damage_share_)) {
      fate.end = ReadEnd::missing;
    } else if (!source && chance(hang_share_)) {
      fate.hangs = true;
      allowed_seconds_ += 11;
    }
    if (chance(delay_share_)) {
      fate.delay = std::exponential_distribution<double>(2)(random_);
      allowed_seconds_ += fate.delay;
    }
    return fate;
  }
  bool takes(uint32_t, uint64_t, uint32_t) override { return !chance(refuse_share_); }

  void delivered(uint32_t, const action::OpenBatch& batch,
                 const std::vector<uint64_t>& filled) override {
    if (batch.batch != next_) complain(fmt::format("batch {} came after {}", batch.batch, next_));
    ++next_;
    const auto order = std::move(*plan_->order().epoch(batch.epoch));
    std::vector<uint64_t> expected(batch.samples.size());
    if (batch.first + expected.size() > plan_->sharding(batch.epoch).per_rank())
      return complain("a batch reaches beyond its epoch");
    read_list(*order, plan_->sharding(batch.epoch), 0, batch.first, expected);
    for (size_t i = 0; i < expected.size(); ++i) {
      if (filled[i] == expected[i]) continue;
      const bool substitute = skipped_.contains(expected[i]) &&
                              std::ranges::find(expected, filled[i]) != expected.end();
      if (!substitute)
        complain(fmt::format("place {} of batch {} has sample {}, not {}", i, batch.batch,
                             static_cast<int64_t>(filled[i]), expected[i]));
    }
  }
  void failed(uint32_t, const action::Fail& fail) override {
    gave_up_ = true;
    if (blame_[fail.sample] < tries_)
      complain(fmt::format("sample {} was given up without a reason", fail.sample));
  }
  void skipped(uint32_t, const action::Skip& skip) override {
    skipped_.insert(skip.sample);
    if (!skips_ || blame_[skip.sample] < tries_)
      complain(fmt::format("sample {} was skipped without a reason", skip.sample));
  }

  void pass_on(uint32_t, std::vector<Action>& actions) override {
    switch (sabotage_) {
      case Sabotage::none:
        return;
      case Sabotage::lose_read:
        return forget<action::Read>(actions);
      case Sabotage::lose_decode:
        return forget<action::Decode>(actions);
      case Sabotage::repeat_deliver:
        for (size_t i = 0; i < actions.size(); ++i) {
          const auto* deliver = std::get_if<action::Deliver>(&actions[i]);
          if (deliver == nullptr || !chance(0.2)) continue;
          // The driver knows a batch once; a second delivery shows as one too many of the next.
          actions[i] = action::Deliver{deliver->batch + 1};
          return;
        }
        return;
      case Sabotage::swap_deliveries:
        swap_deliveries(actions);
        return;
      case Sabotage::wrong_sample:
        for (Action& action : actions) {
          auto* read = std::get_if<action::Read>(&action);
          if (read != nullptr && chance(0.1))
            read->sample = (read->sample + 1) % plan_->sizes().samples();
        }
        return;
      case Sabotage::forget_copy:
        for (Action& action : actions) {
          auto* read = std::get_if<action::Read>(&action);
          if (read != nullptr && read->from.kind == Origin::Kind::tier && chance(0.1))
            read->from = {};
        }
        return;
      case Sabotage::crowd_tier:
        for (Action& action : actions) {
          auto* place = std::get_if<action::Place>(&action);
          if (place != nullptr) place->tier = 0;
        }
        return;
    }
  }
  template <class Forgotten>
  void forget(std::vector<Action>& actions) {
    std::erase_if(actions, [this](const Action& action) {
      return std::holds_alternative<Forgotten>(action) && chance(0.05);
    });
  }
  void swap_deliveries(std::vector<Action>& actions) {
    action::Deliver* first = nullptr;
    for (Action& action : actions) {
      auto* deliver = std::get_if<action::Deliver>(&action);
      if (deliver == nullptr) continue;
      if (first != nullptr) return std::swap(*first, *deliver);
      first = deliver;
    }
  }

  std::mt19937_64 random_;
  Sabotage sabotage_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Cluster> cluster_;
  uint32_t weather_ = 0;  // slot
  std::unique_ptr<PolicyRank> rank_;
  std::set<uint64_t> bad_;
  double error_share_ = 0;
  double delay_share_ = 0;
  double hang_share_ = 0;
  double damage_share_ = 0;
  double refuse_share_ = 0;
  bool skips_ = false;
  unsigned tries_ = 3;

  bool computing_ = false;
  uint64_t computed_ = 0;
  uint64_t consumed_ = 0;
  uint64_t next_ = 0;
  bool gave_up_ = false;
  std::map<uint64_t, unsigned> blame_;  // tries that were spoilt, by sample
  std::set<uint64_t> skipped_;
  int changes_ = 0;  // of the weather
  double allowed_seconds_ = 0;
  std::optional<std::string> complaint_;
};

}  // namespace foreload::sim
