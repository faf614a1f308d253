// SPDX-License-Identifier: Apache-2.0
//
// One rank with foreload's own policy, the production object, and modelled devices: what
// fetch/engine.cc is for real ones. Actions become transfers on the cluster's devices, their ends
// become events; what ranks do for each other is in rank_peers.h. Whatever can go wrong comes from
// a World, so that tests can let it: those of the policy run on this driver, too.
//
// For one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "foreload/policy/driver.h"
#include "foreload/policy/policy.h"
#include "foreload/sim/cluster.h"
#include "foreload/sim/decode_threads.h"
#include "foreload/sim/life.h"
#include "foreload/sim/rank_batches.h"
#include "foreload/sim/rank_desk.h"
#include "foreload/sim/rank_operations.h"
#include "foreload/sim/rank_peers.h"
#include "foreload/sim/rank_tiers.h"
#include "foreload/sim/world.h"

namespace foreload::sim {

class PolicyRank : private Driver {
 public:
  // REQUIRES: cluster and world outlive it.
  PolicyRank(PolicyRankSettings settings, Cluster& cluster, World& world);
  PolicyRank(const PolicyRank&) = delete;
  PolicyRank& operator=(const PolicyRank&) = delete;

  void begin();
  // Something happens that no device does.
  void tell(const Event& event);
  // A transfer with a token of this rank has ended.
  void ended(uint64_t token);
  // Where the agenda wakes it to be told event::Timer.
  uint32_t timer_slot() const { return timer_; }
  // A peer answers a read, or somebody ends one that is held, or what is being made of one.
  void end(uint64_t request, ReadEnd end);
  void seek(uint64_t epoch, uint64_t start);
  void lose_tier(uint32_t tier);

  Life& life() { return life_; }
  RankPeers& peers() { return peers_; }
  // Copies that are dropped here are gone without the policy knowing.
  RankTiers& tiers() { return tiers_; }
  const RankTiers& tiers() const { return tiers_; }
  RankBatches& batches() { return batches_; }
  const Policy& policy() const { return policy_; }
  // Read by this rank.
  uint64_t source_bytes() const { return source_bytes_; }

 private:
  void carry_out_all();
  void look_over(std::vector<Action>& actions) override {
    desk_.world.pass_on(desk_.rank, actions);
  }
  void carry(action::ComputeEpoch& a) override;
  void carry(action::OpenBatch& a) override { batches_.open(a); }
  void carry(action::Read& a) override;
  void carry(action::Cancel& a) override;
  void carry(action::Make& a) override;
  void carry(action::Decode& a) override;
  void carry(action::Place& a) override;
  void carry(action::Evict& a) override { tiers_.drop(a.tier, a.sample); }
  void carry(action::Copy& a) override { batches_.copy(a.from, a.to); }
  void carry(action::Substitute& a) override { batches_.copy(a.from, a.to); }
  void carry(action::LoseTier& a) override { lose_tier(a.tier); }
  void carry(action::Deliver& a) override { batches_.deliver(a.batch); }
  void carry(action::Fail& a) override { desk_.world.failed(desk_.rank, a); }
  void carry(action::Skip& a) override { desk_.world.skipped(desk_.rank, a); }
  void carry(action::SetTimer& a) override;
  void carry(action::CloseBatch& a) override { batches_.close(a.batch); }

  void start_read(uint64_t token);
  void end_read(const Operation& operation);
  void end_make(const Operation& operation);

  // A part knows only those above it; the last two also come back to this rank.
  RankDesk desk_;
  RankOperations operations_{desk_.rank};
  RankTiers tiers_{desk_, operations_};
  RankBatches batches_{desk_};
  DecodeThreads threads_{desk_, operations_, batches_};
  Life life_{[this] { peers_.woken(); }};
  RankPeers peers_{desk_, operations_, tiers_, life_, *this};

  Policy policy_;
  const uint32_t timer_;
  std::vector<Action> actions_;
  bool carrying_ = false;
  std::vector<bool> ahead_;  // samples whose next read from a tier counts as one from the source
  uint64_t source_bytes_ = 0;
};

}  // namespace foreload::sim
