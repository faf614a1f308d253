// SPDX-License-Identifier: Apache-2.0
//
// The policies of one rank or several among random faults, on modelled devices: reads that fail,
// are late or never end, copies that are damaged, tiers that refuse, slow down or vanish, samples
// that cannot be had or made into what is kept; ranks that die or stop for a while, links that are
// cut, mended or held up, messages that are lost or damaged, loops that seek, jobs that are started
// again with what their disks hold. Ranks may share hosts, fetch samples out of order, or know no
// peers. The seed decides everything. What must hold whatever happens is checked while it runs:
//
//   every rank gets exactly its reading list (reading_list.h), and what it fetches;
//   no policy does what none may ever do (conduct.h);
//   nothing is read from the source while a copy can be had (source_rule.h), and who has a sample
//   does not refuse it;
//   tiers stay within capacity;
//   nobody waits longer than the faults of that time explain;
//   nothing and nobody is given up without a reason.
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

#include "conduct.h"
#include "reading_list.h"
#include "sabotage.h"
#include "source_rule.h"

namespace foreload::sim {

class FaultyCluster : public World {
 public:
  // With one rank, or with two to `most_ranks`.
  FaultyCluster(uint64_t seed, uint32_t most_ranks, Sabotage sabotage = Sabotage::none)
      : random_(seed), most_ranks_(most_ranks) {
    draw_faults();
    draw_job();
    if (sabotage == Sabotage::lose_decode) policy_.decode = true;
    if (sabotage == Sabotage::lose_make) make();
    saboteur_ = std::make_unique<Saboteur>(sabotage, seed, sizes_.size(), job_.ranks);
    start_job();
  }

  // What went wrong, or nothing.
  std::optional<std::string> run() {
    uint64_t wakes = 0;
    while (!complaint_ && !gave_up_ && !finished()) {
      if (cluster_->agenda().empty()) {
        complain("nothing is under way, and not all is delivered");
      } else if (++wakes > 2'000'000) {
        complain("it goes on and on");
      } else {
        wake(cluster_->agenda().next());
        check_capacities();
        check_waits();
        if (restart_due_) restart();
      }
    }
    const bool least = policy_.objective == Objective::traffic;
    if (least && calm_ && !gave_up_ && (policy_.peers || job_.ranks == 1)) check_traffic();
    return complaint_;
  }

 private:
  static constexpr uint64_t kComputed = uint64_t{1} << 62;  // tokens; the rank besides
  static constexpr uint64_t kAwake = uint64_t{1} << 61;
  static constexpr uint64_t kSeek = uint64_t{1} << 60;
  static constexpr int kChanges = 80;  // of the weather
  static constexpr double kBetweenChanges = 0.05;
  // Seconds that somebody may wait, by the policy's settings: for the dead, once, the peer timeout;
  // for a push, its patience; for a message that was lost, both.
  static constexpr double kSilent = 10 + 1;
  static constexpr double kPushed = 30 + 1;
  static constexpr double kLost = 10 + 30 + 1;

  using Pair = std::pair<uint32_t, uint32_t>;
  struct Faults {
    double error = 0;    // of reads from the source
    double hang = 0;     // of all reads
    double delay = 0;    // of all reads
    double damage = 0;   // of copies, when they are read
    double refuse = 0;   // of samples that a tier is given
    double loss = 0;     // of messages
    double spoil = 0;    // of messages, damaged
    double hold_up = 0;  // these per change of weather
    double kill = 0;
    double stop = 0;
    double cut = 0;
    double slow = 0;
    double lose_tier = 0;
    double restart = 0;
    double seek = 0;
    double fetch = 0;
  };
  struct Loop {
    bool computing = false;
    bool computed = false;  // and waits for the others
    bool missed = false;    // was stopped when it had computed
    unsigned stale = 0;     // batches from before a seek that it still computes
    uint64_t batch = 0;
    uint64_t consumed = 0;
    uint64_t opened = 0;  // numbers of batches so far
    Time waiting_since = 0;
    std::optional<ReadingList> list;
    std::optional<Conduct> conduct;

    uint64_t batches() const { return list->batches(); }
  };
  // Something that went wrong, and how long somebody may wait because of it.
  struct Trouble {
    const char* what;
    Time at;
    double seconds;
    bool for_ever = false;  // whoever meets with it for the first time waits
    bool silence = false;   // of a peer: a batch waits for all who are silent once
  };

  bool chance(double share) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < share;
  }
  double seconds_about(double mean) {
    return std::exponential_distribution<double>(1 / mean)(random_);
  }
  void complain(std::string what) {
    if (!complaint_) complaint_ = fmt::format("{:.3f} s: {}", cluster_->now(), what);
  }
  void trouble(const char* what, double seconds, bool for_ever = false) {
    troubles_.push_back({what, cluster_->now(), seconds, for_ever});
  }
  void silence(const char* what, bool for_ever = true) {
    troubles_.push_back({what, cluster_->now(), kSilent, for_ever, true});
  }
  static Pair both(uint32_t a, uint32_t b) { return {std::min(a, b), std::max(a, b)}; }
  uint32_t node_of(uint32_t rank) const { return cluster_->settings().node_of(rank); }
  uint32_t any_rank() { return static_cast<uint32_t>(random_() % job_.ranks); }

  void draw_faults() {
    calm_ = chance(0.05);
    if (calm_) return;
    auto maybe = [this](double often, double share) { return chance(often) ? share : 0; };
    faults_.error = maybe(0.5, 0.1);
    faults_.delay = maybe(0.5, 0.05);
    faults_.hang = maybe(0.2, 0.01);
    faults_.damage = maybe(0.5, 0.1);
    faults_.refuse = maybe(0.3, 0.1);
    faults_.slow = maybe(0.5, 0.2);
    faults_.lose_tier = maybe(0.3, 0.02);
    faults_.restart = maybe(0.2, 0.02);
    faults_.seek = maybe(0.2, 0.03);
    faults_.fetch = maybe(0.3, 0.3);
    if (most_ranks_ == 1) return;
    faults_.loss = maybe(0.2, 0.02);
    faults_.spoil = maybe(0.3, 0.02);
    faults_.hold_up = maybe(0.3, 0.1);
    faults_.kill = maybe(0.4, 0.02);
    faults_.stop = maybe(0.3, 0.02);
    faults_.cut = maybe(0.3, 0.03);
  }

  void draw_job() {
    job_.ranks = most_ranks_ == 1 ? 1 : static_cast<uint32_t>(2 + random_() % (most_ranks_ - 1));
    const uint64_t samples = job_.ranks + random_() % 80;
    sizes_.resize(samples);
    for (auto& size : sizes_) size = random_() % 500;
    job_.epochs = 1 + random_() % 4;
    job_.seed = random_();
    job_.batching = {1 + random_() % 9, chance(0.25)};
    const uint64_t most = samples * 600 / job_.ranks + 1;
    job_.tiers = {{{"memory", random_() % most, 2}, {"disk", random_() % most, 1}}};
    policy_.peers = job_.ranks > 1 && chance(0.95);
    ranks_per_host_ = chance(0.3) ? static_cast<uint32_t>(2 + random_() % 2) : 1;
    if (chance(0.2)) policy_.tier_deadline = std::chrono::milliseconds(1500);
    policy_.window_bytes = random_() % 8000;
    policy_.ahead_bytes = random_() % 2000;
    policy_.push_bytes = random_() % 5000;
    policy_.serve_bytes = random_() % 5000;
    policy_.source_limiter = {1, 8, 1 + static_cast<unsigned>(random_() % 8)};
    policy_.eviction = eviction_rules()[job_.seed % eviction_rules().size()].name;
    policy_.decode = chance(0.5);
    if (job_.seed >> 8 & 1) make();
    policy_.objective = job_.seed >> 9 & 1 ? Objective::time : Objective::traffic;
    policy_.skip_bad_samples = chance(0.5);
    if (chance(0.3) && !calm_) policy_.hedge_share = 0.5;
    in_step_ = chance(0.5);
    for (uint64_t sample = 0; sample < samples && !calm_; ++sample)
      if (chance(0.01) && (job_.ranks == 1 || policy_.skip_bad_samples)) bad_.insert(sample);
  }

  // Samples are kept in another form than the source has, of the same size.
  void make() { policy_.made_from = std::make_shared<const Sizes>(*Sizes::of(sizes_)); }

  ClusterSettings devices() {
    ClusterSettings cluster;
    cluster.ranks = job_.ranks;
    cluster.ranks_per_node = ranks_per_host_;
    cluster.network = 1e7;
    cluster.network_latency = 1e-4;
    cluster.preprocess = 1e6;
    cluster.source.curve = *Curve::create({{1, 1e4}, {8, 5e4}});
    if (chance(0.5)) cluster.source.latency = {0.01, 0.5};
    for (const double rate : {1e7, 1e5}) {
      TierSettings tier;
      tier.read.curve = Curve::flat(rate);
      if (rate < 1e6) tier.write = Curve::flat(rate);
      cluster.tiers.push_back(tier);
    }
    return cluster;
  }

  void start_job() {
    plan_ = std::make_shared<const Plan>(
        std::move(*Plan::make(job_, *Sizes::of(sizes_), {.threads = 1})));
    ranks_.clear();
    cluster_ = std::make_unique<Cluster>(devices(), random_(), 1024);
    weather_ = cluster_->agenda().add();
    cluster_->agenda().set(weather_, kBetweenChanges);
    auto orders = std::make_shared<SharedOrders>(plan_->order());
    std::vector<Held> held;  // that the plan could make use of
    for (const Held& copy : job_.held) {
      const Owner owner = plan_->placement().owner(copy.sample);
      if (owner.rank == copy.rank &&
          (owner.tier == copy.tier || plan_->placement().backing(copy.sample) == copy.tier))
        held.push_back(copy);
    }
    for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
      policy_.rank = rank;
      policy_.neighbours.clear();
      for (uint32_t other = 0; other < job_.ranks && policy_.peers; ++other)
        if (other != rank && cluster_->settings().node_of(other) == node_of(rank))
          policy_.neighbours.push_back(other);
      ranks_.push_back(std::make_unique<PolicyRank>(PolicyRankSettings{.plan = plan_,
                                                                       .policy = policy_,
                                                                       .orders = orders,
                                                                       .held = held,
                                                                       .decode_threads = 2},
                                                    *cluster_, *this));
    }
    for (const auto& rank : ranks_) rank->peers().know(ranks_);
    loops_.assign(job_.ranks, {});
    for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
      policy_.rank = rank;
      loops_[rank].list.emplace(*plan_, rank, JobPosition{job_.first_epoch, job_.start}, 0);
      loops_[rank].conduct.emplace(*plan_, policy_);
    }
    fetches_.clear();
    rule_.emplace(*plan_, ranks_, policy_.peers);
    padding_ = most_padding();
    // What fills a window, for all ranks one read at a time.
    patience_ = 5 + static_cast<double>(job_.ranks * (policy_.window_bytes + policy_.ahead_bytes +
                                                      job_.batching.batch_size * 500)) /
                        1e4;
    for (const auto& rank : ranks_) rank->begin();
  }

  // Bytes at most that are read more often than planned: twice in an epoch; or left out in the
  // first, and then by several who do not wait for whom.
  uint64_t most_padding() const {
    uint64_t reads = 0;
    for (uint64_t epoch = job_.first_epoch; epoch < job_.first_epoch + *job_.epochs; ++epoch) {
      const Sharding sharding = plan_->sharding(epoch);
      const uint64_t batches = job_.batching.batches(sharding.per_rank());
      const uint64_t steps = std::min(batches * job_.batching.batch_size, sharding.per_rank());
      const uint64_t once = std::min(sharding.remaining(), steps * sharding.ranks);
      reads += steps * sharding.ranks - once;
      if (epoch == job_.first_epoch) reads += (sizes_.size() - once) * job_.ranks;
    }
    return reads * *std::ranges::max_element(sizes_);
  }

  // All ranks end; a new job goes on where all had been, maybe with more ranks or fewer, and finds
  // what disks hold.
  void restart() {
    restart_due_ = false;
    faults_.restart = 0;
    // Where the one is that has come least far.
    std::optional<JobPosition> at;
    for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
      if (ranks_[rank]->life().dead()) continue;
      const auto here = loops_[rank].list->after(loops_[rank].consumed);
      if (here && (!at || *here < *at)) at = here;
    }
    if (!at) return;
    job_.epochs = *job_.epochs - (at->epoch - job_.first_epoch);
    job_.first_epoch = at->epoch;
    job_.start = at->start;
    const uint32_t old_ranks = job_.ranks;
    if (most_ranks_ > 1 && chance(0.5))
      job_.ranks = static_cast<uint32_t>(2 + random_() % (most_ranks_ - 1));
    job_.held.clear();
    for (uint32_t rank = 0; rank < std::min(old_ranks, job_.ranks); ++rank)
      for (uint64_t sample = 0; sample < sizes_.size(); ++sample)
        if (ranks_[rank]->tiers().holds(1, sample)) job_.held.push_back({sample, rank, 1});
    for (auto* pairs : {&cut_, &were_cut_, &lost_}) pairs->clear();
    gave_up_on_.clear();
    were_stopped_.clear();
    held_up_.clear();
    troubles_.clear();
    start_job();
  }

  bool finished() const {
    for (const auto& [fetch, asked] : fetches_)
      if (!ranks_[fetch.first]->life().dead()) return false;
    for (uint32_t rank = 0; rank < job_.ranks; ++rank)
      if (!ranks_[rank]->life().dead() && loops_[rank].consumed < loops_[rank].batches())
        return false;
    return true;
  }

  void wake(uint32_t slot) {
    if (slot == weather_) return change_weather();
    if (!cluster_->owns(slot))
      return ranks_[slot - ranks_.front()->timer_slot()]->tell(event::Timer{});
    const auto token = cluster_->woken(slot);
    if (!token) return;
    const auto rank = static_cast<uint32_t>(*token);
    if ((*token & kComputed) != 0) return computed(rank);
    if ((*token & kAwake) != 0) return go_on_after_stop(rank);
    if ((*token & kSeek) != 0) return seek(rank);
    ranks_[RankOperations::rank_of(*token)]->ended(*token);
  }

  // The loops of ranks: alone, or all in step.
  void computed(uint32_t rank) {
    if (loops_[rank].stale > 0) {
      --loops_[rank].stale;
      return;
    }
    if (ranks_[rank]->life().stopped()) {
      loops_[rank].missed = true;
      return;
    }
    loops_[rank].computed = true;
    if (!in_step_) return end_step(rank);
    end_common_step();
  }
  void end_common_step() {
    for (uint32_t rank = 0; rank < job_.ranks; ++rank)
      if (!ranks_[rank]->life().dead() && loops_[rank].consumed < loops_[rank].batches() &&
          !loops_[rank].computed)
        return;
    for (uint32_t rank = 0; rank < job_.ranks; ++rank)
      if (!ranks_[rank]->life().dead() && loops_[rank].computed) end_step(rank);
  }
  void end_step(uint32_t rank) {
    Loop& loop = loops_[rank];
    loop.computing = loop.computed = false;
    ++loop.consumed;
    loop.waiting_since = cluster_->now();
    ranks_[rank]->tell(event::Consumed{loop.batch});
    go_on(rank);
  }
  void go_on(uint32_t rank) {
    Loop& loop = loops_[rank];
    if (loop.computing || ranks_[rank]->batches().ready().empty() || ranks_[rank]->life().dead() ||
        ranks_[rank]->life().stopped())
      return;
    loop.batch = ranks_[rank]->batches().ready().front().number;
    ranks_[rank]->batches().ready().pop_front();
    loop.computing = true;
    cluster_->wait(0.002, kComputed | rank);
  }

  // Faults that come by themselves.
  void change_weather() {
    const bool last = ++changes_ >= kChanges;
    if (!last) cluster_->agenda().set(weather_, cluster_->now() + kBetweenChanges);
    if (last || chance(faults_.slow)) {
      const bool slow = !last && chance(0.5);
      cluster_->tier(node_of(any_rank()), 1).set_speed(cluster_->agenda(), slow ? 0.05 : 1);
      for (uint32_t rank = 0; last && rank < job_.ranks; ++rank)
        cluster_->tier(node_of(rank), 1).set_speed(cluster_->agenda(), 1);
      if (slow) trouble("slow disk", 4);
    }
    if (chance(faults_.lose_tier))
      ranks_[any_rank()]->lose_tier(static_cast<uint32_t>(random_() % 2));
    if (chance(faults_.restart)) restart_due_ = true;
    if (chance(faults_.seek)) seek_somewhere();
    if (chance(faults_.fetch)) fetch(any_rank());
    if (job_.ranks == 1) return;
    if (chance(faults_.kill)) kill(any_rank());
    if (chance(faults_.stop)) stop(any_rank());
    if (chance(faults_.cut)) cut(any_rank(), any_rank());
    if (chance(faults_.hold_up)) {
      const double seconds = std::min(2.0, seconds_about(0.5));
      held_up_[{any_rank(), any_rank()}] = cluster_->now() + seconds;
      trouble("held up", 3 * seconds);
    }
    if (!cut_.empty() && chance(0.1)) {
      cut_.erase(cut_.begin());
      trouble("mended", kLost);  // what was sent meanwhile is lost
    }
  }
  void kill(uint32_t rank) {
    uint32_t living = 0;
    for (const auto& one : ranks_) living += one->life().dead() ? 0 : 1;
    if (living < 2) return;
    ranks_[rank]->life().die();
    silence("kill");
    if (in_step_) end_common_step();
  }
  void stop(uint32_t rank) {
    if (ranks_[rank]->life().dead() || ranks_[rank]->life().stopped()) return;
    const double seconds = chance(0.5) ? seconds_about(1) : 10 + seconds_about(10);
    ranks_[rank]->life().stop();
    were_stopped_.insert(rank);
    silence("stop");
    cluster_->wait(seconds, kAwake | rank);
  }
  void go_on_after_stop(uint32_t rank) {
    if (ranks_[rank]->life().dead()) return;
    silence("woken", false);
    loops_[rank].waiting_since = cluster_->now();
    catching_up_ = true;
    ranks_[rank]->life().wake();
    catching_up_ = false;
    if (std::exchange(loops_[rank].missed, false)) computed(rank);
    go_on(rank);
  }
  void cut(uint32_t a, uint32_t b) {
    if (a == b) return;
    cut_.insert(both(a, b));
    were_cut_.insert(both(a, b));
    silence("cut");
  }
  // All loops go on elsewhere: in step at the same moment, else each when it comes to it.
  void seek_somewhere() {
    for (const auto& rank : ranks_)
      if (rank->life().stopped()) return;
    seek_to_ = {job_.first_epoch + random_() % *job_.epochs, 0};
    const Sharding sharding{sizes_.size(), job_.ranks, job_.pad, 0};
    const uint64_t batches = job_.batching.batches(sharding.per_rank());
    if (batches == 0) return;
    seek_to_.start = random_() % batches * job_.batching.batch_size * job_.ranks;
    for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
      if (in_step_)
        seek(rank);
      else
        cluster_->wait(seconds_about(0.05), kSeek | rank);
    }
  }
  void seek(uint32_t rank) {
    if (ranks_[rank]->life().dead()) return;
    if (ranks_[rank]->life().stopped()) return cluster_->wait(1, kSeek | rank);
    Loop& loop = loops_[rank];
    if (loop.computing && !loop.computed && !loop.missed) ++loop.stale;
    loop.computing = loop.computed = loop.missed = false;
    loop.consumed = 0;
    loop.waiting_since = cluster_->now();
    loop.list.emplace(*plan_, rank, seek_to_, loop.opened);
    rule_->seek(rank);
    ranks_[rank]->seek(seek_to_.epoch, seek_to_.start);
  }

  // Somebody wants samples out of order, and may not want them any more before they come.
  void fetch(uint32_t rank) {
    if (ranks_[rank]->life().dead() || ranks_[rank]->life().stopped()) return;
    std::vector<uint64_t> samples(1 + random_() % 6);
    for (uint64_t& sample : samples) sample = random_() % sizes_.size();
    const uint64_t number = kFetches + fetched_++;
    fetches_[{rank, number}] = {samples, false};
    ranks_[rank]->tell(event::Fetch{number, samples, chance(0.5)});
    const auto other = fetches_.lower_bound({rank, kFetches + random_() % fetched_});
    if (!chance(0.2) || other == fetches_.end() || other->first.first != rank) return;
    other->second.forgotten = true;
    ranks_[rank]->tell(event::ForgetFetch{other->first.second});
    // One that was not opened yet is never answered.
    if (!loops_[rank].conduct->is_open(other->first.second)) fetches_.erase(other);
  }

  // Checks.

  void check_capacities() {
    for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
      for (uint32_t tier = 0; tier < plan_->capacities().tiers(); ++tier) {
        const uint64_t bytes = ranks_[rank]->tiers().bytes(tier);
        const uint64_t most = plan_->capacities().at(rank, tier);
        if (bytes > most)
          complain(fmt::format("rank {}: tier {} holds {} of {} bytes", rank, tier, bytes, most));
      }
    }
  }
  void check_waits() {
    for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
      const Loop& loop = loops_[rank];
      if (ranks_[rank]->life().dead() || ranks_[rank]->life().stopped() || loop.computing ||
          loop.consumed == loop.batches())
        continue;
      const double waited = cluster_->now() - loop.waiting_since;
      if (waited <= patience_) continue;
      double explained = patience_;
      bool silent = false;
      std::string why;
      for (const Trouble& trouble : troubles_) {
        if (!trouble.for_ever && trouble.at + trouble.seconds + patience_ < loop.waiting_since)
          continue;
        if (!trouble.silence || !std::exchange(silent, true)) explained += trouble.seconds;
        why += fmt::format("; {} at {:.2f} s", trouble.what, trouble.at);
      }
      if (waited > explained)
        complain(
            fmt::format("rank {} has waited {:.1f} s for batch {} of {}, {:.1f} s are explained{}",
                        rank, waited, loop.consumed, loop.batches(), explained, why));
    }
  }
  void check_traffic() {
    uint64_t bytes = 0;
    for (const auto& rank : ranks_)
      bytes += rank->source_bytes() - rank->policy().totals().hedged_bytes;
    if (bytes > plan_->traffic().source_bytes() + padding_)
      complain(fmt::format("{} bytes were read from the source, the plan has {}", bytes,
                           plan_->traffic().source_bytes()));
  }
  void check_dropped(uint32_t rank, const action::DropPeer& a) {
    const bool explained = ranks_[a.rank]->life().dead() ||
                           were_cut_.contains(both(rank, a.rank)) ||
                           were_stopped_.contains(a.rank) || were_stopped_.contains(rank) ||
                           gave_up_on_.contains({a.rank, rank});
    if (!explained) complain(fmt::format("rank {} gives up rank {}, which lives", rank, a.rank));
    gave_up_on_.insert({rank, a.rank});
  }
  // World.

  void pass_on(uint32_t rank, std::vector<Action>& actions) override {
    saboteur_->spoil(actions);
    for (const Action& action : actions) {
      if (auto wrong = rule_->note(rank, action, catching_up_)) complain(std::move(*wrong));
      if (auto wrong = loops_[rank].conduct->decided(action)) complain(std::move(*wrong));
      if (const auto* open = std::get_if<action::OpenBatch>(&action);
          open && !is_fetch(open->batch))
        loops_[rank].opened = open->batch + 1;
      if (const auto* drop = std::get_if<action::DropPeer>(&action)) check_dropped(rank, *drop);
    }
  }
  void heard(uint32_t rank, const Event& event) override { loops_[rank].conduct->heard(event); }
  Fate fate(uint32_t rank, const action::Read& read) override {
    const bool source = read.from.kind == Origin::Kind::source;
    if (source) {
      auto wrong = rule_->check(rank, read, catching_up_, [this](uint32_t a, uint32_t b) {
        return !cut_.contains(both(a, b));
      });
      if (wrong) complain(std::move(*wrong));
    }
    Fate fate;
    unsigned& blame = blame_[{rank, read.sample}];
    const bool bad = source && bad_.contains(read.sample);
    if (bad && !policy_.made_from) {
      blame += policy_.tries;
      fate.end = ReadEnd::permanent;
      return fate;
    }
    // Memory of a neighbour is copied: that ends.
    if (read.from.kind != Origin::Kind::neighbour && chance(faults_.hang)) {
      fate.hangs = true;
      if (source) blame += policy_.tries - 1;
      trouble("hang", source ? std::chrono::duration<double>(read.deadline).count() + 2 : 11);
    } else if (source && chance(faults_.error)) {
      fate.end = chance(0.7) ? ReadEnd::transient : ReadEnd::throttled;
      ++blame;
      trouble("error", 0.5);
    } else if (!source && chance(faults_.damage)) {
      fate.end = ReadEnd::missing;
      trouble("damage", 0.5);
    }
    if (chance(faults_.delay)) {
      fate.delay = seconds_about(0.5);
      trouble("delay", fate.delay);
    }
    if (source && !bad && fate.end == ReadEnd::ok && !fate.hangs && !read.hedge)
      rule_->succeeds(rank, read.sample);
    return fate;
  }
  Fate makes(uint32_t rank, const action::Make& make) override {
    if (!bad_.contains(make.sample)) return {};
    blame_[{rank, make.sample}] += policy_.tries;
    return {.end = ReadEnd::undecodable};
  }
  bool takes(uint32_t, uint64_t, uint32_t) override { return !chance(faults_.refuse); }
  bool serves(uint32_t, uint64_t, uint32_t) override { return !chance(faults_.damage); }
  double delay(uint32_t from, uint32_t to) override {
    const auto held_up = held_up_.find({from, to});
    return held_up == held_up_.end() ? 0 : std::max(0.0, held_up->second - cluster_->now());
  }
  Arrival arrival(uint32_t from, uint32_t to, uint64_t sample) override {
    const bool cut = cut_.contains(both(from, to));
    if (cut || chance(faults_.loss)) {
      were_cut_.insert(both(from, to));
      if (!cut) trouble("loss", kLost);
      // If it was a push, whoever asks for the sample first, maybe in the next epoch, waits until
      // its keeper has lost patience, and with all that this peer should have pushed.
      if (sample != kNoSample && lost_.insert({from, to}).second)
        trouble("lost push", kPushed, true);
      return Arrival::never;
    }
    if (sample == kNoSample || !chance(faults_.spoil)) return Arrival::whole;
    rule_->damaged(to, sample);
    trouble("spoilt message", kPushed);
    return Arrival::damaged;
  }
  void ready(uint32_t rank) override { go_on(rank); }

  void delivered(uint32_t rank, const action::OpenBatch& batch,
                 const std::vector<uint64_t>& filled) override {
    if (auto wrong = loops_[rank].list->delivered(batch, filled, skipped_))
      complain(std::move(*wrong));
  }
  void fetched(uint32_t rank, const action::OpenBatch& batch,
               const std::vector<uint64_t>& filled) override {
    const auto found = fetches_.find({rank, batch.batch});
    if (found == fetches_.end()) return complain("a fetch is answered that nobody asked for");
    const auto& [asked, forgotten] = found->second;
    for (size_t i = 0; i < asked.size(); ++i)
      if (filled[i] != asked[i] && !forgotten && !unfetched_.contains({batch.batch, asked[i]}))
        complain(fmt::format("rank {} fetched sample {} and got {}", rank, asked[i],
                             static_cast<int64_t>(filled[i])));
    fetches_.erase(found);
  }
  void failed(uint32_t rank, const action::Fail& fail) override {
    if (is_fetch(fail.place.batch))
      unfetched_.insert({fail.place.batch, fail.sample});
    else
      gave_up_ = true;
    if (blame_[{rank, fail.sample}] < policy_.tries)
      complain(fmt::format("rank {} gave up sample {} without a reason", rank, fail.sample));
  }
  void skipped(uint32_t rank, const action::Skip& skip) override {
    skipped_.insert({rank, skip.sample});
    trouble("skipped sample", 1);  // and its keeper is told
    if (!policy_.skip_bad_samples || blame_[{rank, skip.sample}] < policy_.tries)
      complain(fmt::format("rank {} skipped sample {} without a reason", rank, skip.sample));
  }

  std::mt19937_64 random_;
  uint32_t most_ranks_;
  bool calm_ = false;
  Faults faults_;
  Job job_;
  std::vector<uint64_t> sizes_;
  PolicySettings policy_;
  bool in_step_ = false;
  uint32_t ranks_per_host_ = 1;
  std::set<uint64_t> bad_;
  std::unique_ptr<Saboteur> saboteur_;

  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Cluster> cluster_;
  std::vector<std::unique_ptr<PolicyRank>> ranks_;
  std::vector<Loop> loops_;
  std::optional<SourceRule> rule_;
  struct Asked {
    std::vector<uint64_t> samples;
    bool forgotten = false;
  };
  std::map<std::pair<uint32_t, uint64_t>, Asked> fetches_;  // {rank, batch}: not answered yet
  uint64_t fetched_ = 0;
  std::set<std::pair<uint64_t, uint64_t>> unfetched_;  // {batch, sample}: could not be had
  uint64_t padding_ = 0;  // bytes at most that are read more often than planned
  double patience_ = 0;   // a wait that nothing need explain
  JobPosition seek_to_;

  uint32_t weather_ = 0;  // slot
  int changes_ = 0;
  bool restart_due_ = false;
  bool gave_up_ = false;
  bool catching_up_ = false;  // a rank hears what it missed, and does not know yet what it has
  std::vector<Trouble> troubles_;
  std::set<Pair> cut_;
  std::set<Pair> were_cut_;                                  // or lost a message
  std::set<Pair> lost_;                                      // {from, to}: messages with a sample
  std::set<Pair> gave_up_on_;                                // {rank, peer}
  std::set<uint32_t> were_stopped_;                          // ranks
  std::map<Pair, Time> held_up_;                             // {from, to}, until when
  std::map<std::pair<uint32_t, uint64_t>, unsigned> blame_;  // {rank, sample}: tries spoilt
  std::set<std::pair<uint32_t, uint64_t>> skipped_;          // {rank, sample}
  std::optional<std::string> complaint_;
};

}  // namespace foreload::sim
