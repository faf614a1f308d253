// SPDX-License-Identifier: Apache-2.0
//
// Several ranks' policies with a virtual clock, a source, tiers and a network between them, all in
// one thread and decided by a seed. Ranks may be killed, stopped, cut off or slow; what must hold
// whatever happens is checked while it runs.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/policy/driver.h"
#include "foreload/policy/policy.h"

namespace foreload {

struct ClusterSettings {
  PolicySettings policy;
  RunTime source_time = std::chrono::milliseconds(5);  // of a read, up to twice that
  RunTime network_time = std::chrono::microseconds(200);
  RunTime step = std::chrono::milliseconds(4);  // the loop computes so long per batch
  double refuse_share = 0;                      // of copies that a tier does not take
  bool in_step = true;                          // all ranks finish a step before the next
  uint32_t ranks_per_host = 1;                  // that read each other's memory in place
  uint64_t seed = 1;
};

// A few batches ahead, so that an epoch is nearly over before the next one begins.
inline ClusterSettings narrow() {
  ClusterSettings settings;
  settings.policy.window_bytes = 1024;
  return settings;
}

class Cluster {
 public:
  Cluster(std::shared_ptr<const Plan> plan, ClusterSettings settings)
      : plan_(std::move(plan)), settings_(settings), random_(settings.seed) {
    for (uint32_t rank = 0; rank < plan_->job().ranks; ++rank) {
      PolicySettings own = settings.policy;
      own.rank = rank;
      own.peers = true;
      for (uint32_t other = 0; other < plan_->job().ranks; ++other)
        if (other != rank && same_host(rank, other)) own.neighbours.push_back(other);
      ranks_.push_back(std::make_unique<Rank>(*this, rank, own));
    }
    for (const Held& held : plan_->job().held) ranks_[held.rank]->keep(held.sample, held.tier);
    for (auto& rank : ranks_) rank->begin();
  }

  // Until nothing happens any more, at most until `end`.
  void run(RunTime end = std::chrono::hours(10)) {
    while (!agenda_.empty() && agenda_.top().at <= end) {
      const Due due = agenda_.top();
      agenda_.pop();
      now_ = due.at;
      due.what();
    }
  }
  bool same_host(uint32_t a, uint32_t b) const {
    return a / settings_.ranks_per_host == b / settings_.ranks_per_host;
  }
  void at(RunTime when, std::function<void()> what) {
    agenda_.push({when, next_++, std::move(what)});
  }
  // As soon as it is so.
  void once(std::function<bool()> condition, std::function<void()> what) {
    if (condition()) return what();
    at(now_ + std::chrono::microseconds(100),
       [this, condition = std::move(condition), what = std::move(what)] { once(condition, what); });
  }
  void kill(uint32_t rank) {
    ranks_[rank]->dead = true;
    if (settings_.in_step) step();
  }
  // Nothing is done and nothing heard until it is woken; what was sent to it waits.
  void stop(uint32_t rank) {
    ranks_[rank]->stopped = true;
    if (settings_.in_step) step();
  }
  void wake(uint32_t rank) {
    ranks_[rank]->stopped = false;
    for (auto& missed : std::exchange(ranks_[rank]->missed, {})) missed();
    for (auto& other : ranks_) other->send_held_up(rank);
  }
  void cut(uint32_t a, uint32_t b) {
    cut_.insert({a, b});
    cut_.insert({b, a});
  }

  // Its answers take so much longer.
  void slow_down(uint32_t rank, RunTime by) { ranks_[rank]->slower_by = by; }

  // What was sent meanwhile is lost.
  void mend(uint32_t a, uint32_t b) {
    cut_.erase({a, b});
    cut_.erase({b, a});
  }

  struct Rank : Driver {
    Rank(Cluster& all, uint32_t number, PolicySettings settings)
        : cluster(all), rank(number), policy(all.plan_, settings, all.plan_->job().held) {}

    void begin() {
      policy.begin(cluster.now_, todo);
      carry_out(todo);
    }
    void tell(const Event& event) {
      if (dead) return;
      if (stopped) {
        missed.push_back([this, event] { tell(event); });
        return;
      }
      policy.on(event, cluster.now_, todo);
      carry_out(todo);
    }
    void later(RunTime delay, std::function<void()> what) {
      cluster.at(cluster.now_ + delay, std::move(what));
    }
    // A message to a peer: arrives after a while if both can talk.
    void send(uint32_t to, Event event) {
      if (dropped.contains(to)) return;
      Rank& peer = *cluster.ranks_[to];
      later(cluster.settings_.network_time + RunTime(cluster.random_() % 100'000),
            [this, &peer, event = std::move(event)] {
              if (dead || peer.dropped.contains(rank) || cluster.cut_.contains({rank, peer.rank}))
                return;
              peer.tell(event);
            });
    }

    void carry(action::ComputeEpoch& a) override {
      policy.on(event::EpochKnown{a.epoch, std::move(*cluster.plan_->order().epoch(a.epoch))},
                cluster.now_, todo);
    }
    void carry(action::OpenBatch& a) override { open[a.batch] = a; }
    void carry(action::Read& a) override {
      const uint64_t sample = a.sample;
      reads[a.request] = a;
      if (a.from.kind == Origin::Kind::source) {
        const auto time = cluster.settings_.source_time;
        later(time + RunTime(cluster.random_() % time.count()), [this, sample, id = a.request] {
          if (!reads.contains(id) || dead) return;
          ++cluster.source_reads_[sample];
          end_read(id, cluster.unreadable_.contains(sample) ? ReadEnd::permanent : ReadEnd::ok);
        });
      } else if (a.from.kind == Origin::Kind::tier) {
        later(std::chrono::microseconds(50), [this, sample, a] {
          end_read(a.request, holds(sample, a.from.number) ? ReadEnd::ok : ReadEnd::missing);
        });
      } else if (a.from.kind == Origin::Kind::neighbour) {
        later(std::chrono::microseconds(10), [this, a] {
          const bool there = in_memory_of_neighbour(a.from.number, a.sample);
          if (there) ++cluster.read_in_place_;
          end_read(a.request, there ? ReadEnd::ok : ReadEnd::missing);
        });
      } else {
        EXPECT_FALSE(dropped.contains(a.from.number)) << "asked a peer that counts as dead";
        ++cluster.requests_;
        send(a.from.number, event::PeerRequest{rank, sample, a.request});
      }
    }
    // Also of one that is stopped, or dead and not known to be.
    bool in_memory_of_neighbour(uint32_t number, uint64_t sample) const {
      for (const auto& other : cluster.ranks_) {
        if (other->rank == rank || !cluster.same_host(rank, other->rank) ||
            dropped.contains(other->rank) || (number != kNoOwner && number != other->rank))
          continue;
        if (other->holds(sample, 0)) return true;
      }
      return false;
    }
    void end_read(uint64_t id, ReadEnd end) {
      const auto found = reads.find(id);
      if (found == reads.end() || dead) return;
      const action::Read read = found->second;
      reads.erase(found);
      if (end == ReadEnd::ok && read.place.batch != kNoBatch) filled[read.place] = read.sample;
      tell(event::ReadEnded{id, end});
    }
    void carry(action::Cancel& a) override {
      const auto found = reads.find(a.request);
      ASSERT_NE(found, reads.end());
      if (found->second.from.kind == Origin::Kind::peer)
        send(found->second.from.number, event::PeerCancel{rank, a.request});
      reads.erase(found);
    }
    void carry(action::Decode& a) override {
      later(std::chrono::milliseconds(1), [this, a] { tell(event::Decoded{a.place, true}); });
    }
    void place(uint64_t sample, uint32_t tier) {
      const bool ok =
          static_cast<double>(cluster.random_() % 1000) >= 1000 * cluster.settings_.refuse_share;
      later(std::chrono::microseconds(20), [this, sample, tier, ok] {
        if (ok) keep(sample, tier);
        tell(event::Placed{sample, tier, ok});
      });
    }
    bool holds(uint64_t sample, uint32_t tier) const {
      const auto found = tiers.find(tier);
      return found != tiers.end() && found->second.contains(sample);
    }
    void keep(uint64_t sample, uint32_t tier) {
      if (!tiers[tier].insert(sample).second) return;
      bytes[tier] += cluster.plan_->sizes()[sample];
      EXPECT_LE(bytes[tier], cluster.plan_->capacities().at(rank, tier)) << "a tier is too full";
    }
    void forget(uint64_t sample, uint32_t tier) {
      if (tiers[tier].erase(sample) > 0) bytes[tier] -= cluster.plan_->sizes()[sample];
    }
    void carry(action::Place& a) override { place(a.sample, a.tier); }
    void carry(action::PlacePushed& a) override { place(a.sample, a.tier); }
    void carry(action::Evict& a) override { forget(a.sample, a.tier); }
    void carry(action::Copy& a) override { filled[a.to] = filled.at(a.from); }
    void carry(action::Substitute& a) override { filled[a.to] = filled.at(a.from); }
    void carry(action::LoseTier& a) override {
      tiers[a.tier].clear();
      bytes[a.tier] = 0;
    }
    void carry(action::Deliver& a) override {
      const action::OpenBatch& batch = open.at(a.batch);
      if (lists.size() <= batch.epoch) lists.resize(batch.epoch + 1);
      for (uint32_t i = 0; i < batch.samples.size(); ++i)
        lists[batch.epoch].push_back(filled.at({a.batch, i}));
      delivered.push_back(a.batch);
      longest_wait = std::max(longest_wait, cluster.now_ - waiting_since);
      open.erase(a.batch);
      consume();
    }
    // The loop takes a batch, computes, and comes back for the next.
    void consume() {
      if (computing || consumed == delivered.size()) return;
      computing = true;
      later(cluster.settings_.step, [this] {
        if (dead) return;
        if (cluster.settings_.in_step) {
          ready = true;
          cluster.step();
        } else {
          done();
        }
      });
    }
    void done() {
      computing = false;
      ready = false;
      waiting_since = cluster.now_;
      tell(event::Consumed{delivered[consumed++]});
      consume();
    }
    void carry(action::Fail& a) override { ADD_FAILURE() << "sample " << a.sample << " failed"; }
    void carry(action::Skip&) override {}
    void carry(action::SetTimer& a) override {
      timer = a.at;
      cluster.at(a.at, [this, at = a.at] {
        if (timer != at) return;
        timer.reset();
        tell(event::Timer{});
      });
    }
    void carry(action::CloseBatch& a) override { open.erase(a.batch); }
    void carry(action::Serve& a) override {
      later(std::chrono::microseconds(30), [this, a] {
        const bool ok = holds(a.sample, a.tier);
        // Who is stopped takes nothing: it stays here.
        if (ok && cluster.ranks_[a.rank]->stopped && !dropped.contains(a.rank))
          held_up.push_back(a);
        else
          send(a, ok);
      });
    }
    void send(const action::Serve& a, bool ok) {
      if (ok && !dead && !stopped) reply(a.rank, a.request, ReadEnd::ok);
      tell(event::Served{a.rank, a.request, a.sample, a.tier, ok});
    }
    void send_held_up(uint32_t to) {
      for (const action::Serve& a : std::exchange(held_up, {})) {
        if (a.rank == to)
          send(a, true);
        else
          held_up.push_back(a);
      }
    }
    void carry(action::Refuse& a) override { reply(a.rank, a.request, ReadEnd::missing); }
    void reply(uint32_t to, uint64_t request, ReadEnd end) {
      if (dropped.contains(to)) return;
      Rank& peer = *cluster.ranks_[to];
      later(cluster.settings_.network_time + slower_by, [this, &peer, request, end] {
        if (dead || peer.dropped.contains(rank) || cluster.cut_.contains({rank, peer.rank})) return;
        peer.tell(event::PeerHeard{rank});
        if (peer.stopped)
          peer.missed.push_back([&peer, request, end] { peer.end_read(request, end); });
        else
          peer.end_read(request, end);
      });
    }
    void carry(action::HoldPush& a) override { held.insert(a.push); }
    void carry(action::SendPush& a) override {
      EXPECT_TRUE(held.contains(a.push));
      ++cluster.pushes_;
      if (cluster.on_push_) cluster.on_push_(rank, a.rank);
      // The peer sees numbers that are unique among all senders.
      send(a.rank, event::PeerPush{rank, a.sample, a.push});
    }
    void carry(action::TellUnread& a) override {
      send(a.rank, event::PeerPush{rank, a.sample, kNoPush, false});
    }
    void carry(action::EndPush& a) override { EXPECT_EQ(held.erase(a.push), 1u); }
    void carry(action::AnswerPush& a) override { send(a.rank, event::PushAnswered{a.push, a.end}); }
    void carry(action::Ping& a) override {
      Rank& peer = *cluster.ranks_[a.rank];
      later(cluster.settings_.network_time, [this, &peer] {
        if (dead || peer.dead || peer.stopped || peer.dropped.contains(rank) ||
            cluster.cut_.contains({rank, peer.rank}))
          return;
        peer.send(rank, event::PeerHeard{peer.rank});
      });
    }
    void carry(action::DropPeer& a) override {
      dropped.insert(a.rank);
      later(RunTime(0), [this, to = a.rank] { send_held_up(to); });
    }

    Cluster& cluster;
    const uint32_t rank;
    Policy policy;
    bool dead = false;
    bool stopped = false;
    std::vector<std::function<void()>> missed;
    std::vector<Action> todo;
    std::map<uint64_t, action::Read> reads;
    std::map<uint32_t, std::set<uint64_t>> tiers;
    std::map<uint32_t, uint64_t> bytes;  // by tier
    std::vector<action::Serve> held_up;  // on their way to ranks that are stopped
    std::map<uint64_t, action::OpenBatch> open;
    std::map<BatchPlace, uint64_t> filled;
    std::vector<std::vector<uint64_t>> lists;  // by epoch
    std::vector<uint64_t> delivered;
    uint64_t consumed = 0;
    bool computing = false;
    bool ready = false;
    std::set<uint64_t> held;
    std::set<uint32_t> dropped;
    std::optional<RunTime> timer;
    RunTime slower_by{0};
    RunTime waiting_since{0};
    RunTime longest_wait{0};
  };

  // All ranks that live have computed: the next step begins.
  void step() {
    for (const auto& rank : ranks_)
      if (!rank->dead && !rank->stopped && !rank->ready && !finished(*rank)) return;
    for (const auto& rank : ranks_)
      if (!rank->dead && rank->ready) rank->done();
  }
  bool finished(const Rank& rank) const {
    return rank.consumed == rank.delivered.size() && rank.reads.empty() && rank.open.empty();
  }

  // The rank got exactly its lists of all epochs.
  void expect_lists(uint32_t rank) const {
    const uint64_t epochs = *plan_->job().epochs;
    if (plan_->job().batching.batches(plan_->sharding(0).per_rank()) == 0) return;
    ASSERT_EQ(ranks_[rank]->lists.size(), epochs) << "rank " << rank;
    for (uint64_t epoch = 0; epoch < epochs; ++epoch) {
      const auto order = std::move(*plan_->order().epoch(epoch));
      std::vector<uint64_t> list(plan_->sharding(epoch).per_rank());
      read_list(*order, plan_->sharding(epoch), rank, 0, list);
      const Batching& batching = plan_->job().batching;
      if (batching.drop_last) list.resize(list.size() / batching.batch_size * batching.batch_size);
      EXPECT_EQ(ranks_[rank]->lists[epoch], list) << "rank " << rank << ", epoch " << epoch;
    }
  }
  uint64_t source_reads() const {
    uint64_t sum = 0;
    for (const auto& [sample, reads] : source_reads_) sum += reads;
    return sum;
  }

  struct Due {
    RunTime at;
    uint64_t number;
    std::function<void()> what;
    bool operator<(const Due& other) const {
      return at != other.at ? at > other.at : number > other.number;
    }
  };

  std::shared_ptr<const Plan> plan_;
  ClusterSettings settings_;
  std::mt19937_64 random_;
  RunTime now_{0};
  uint64_t next_ = 0;
  std::priority_queue<Due> agenda_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<uint64_t, uint64_t> source_reads_;
  std::set<uint64_t> unreadable_;  // samples that the source cannot give
  uint64_t pushes_ = 0;
  std::function<void(uint32_t from, uint32_t to)> on_push_;  // as one leaves
  uint64_t requests_ = 0;
  uint64_t read_in_place_ = 0;
  std::set<std::pair<uint32_t, uint32_t>> cut_;
};

}  // namespace foreload
