// SPDX-License-Identifier: Apache-2.0
//
// What a simulated rank does for others and hears from them: what fetch does with a transport.
// Messages take the cluster's network, and the world may lose or damage them.
//
// For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "foreload/policy/driver.h"
#include "foreload/sim/life.h"
#include "foreload/sim/rank_desk.h"
#include "foreload/sim/rank_operations.h"
#include "foreload/sim/rank_tiers.h"

namespace foreload::sim {

class PolicyRank;

class RankPeers final : public PeerDriver {
 public:
  // `own` is told what comes.
  RankPeers(const RankDesk& desk, RankOperations& operations, RankTiers& tiers, Life& life,
            PolicyRank& own);

  // The ranks it may talk to, itself included, by number. REQUIRES: they outlive it.
  void know(std::span<const std::unique_ptr<PolicyRank>> ranks) { ranks_ = ranks; }

  // The answer ends the request.
  void ask(uint32_t peer, uint64_t request, uint64_t sample);
  void stop_asking(uint32_t peer, uint64_t request);
  // The rank of this host, or one of them (kNoOwner), in whose memory the sample can be read.
  std::optional<uint32_t> neighbour_with(uint64_t sample, uint32_t number) const;
  // A message of this rank is at its end of the network.
  void sent(const Operation& message);
  // Others go on with what they held up for this rank.
  void woken();

  void carry(action::Serve& a) override;
  void carry(action::Refuse& a) override;
  void carry(action::HoldPush&) override {}
  void carry(action::SendPush& a) override;
  void carry(action::EndPush&) override {}
  void carry(action::TellUnread& a) override;
  void carry(action::PlacePushed& a) override { tiers_.place(a.sample, a.tier); }
  void carry(action::AnswerPush& a) override;
  void carry(action::Ping& a) override { send({.work = Work::ping, .peer = a.rank}, 0); }
  void carry(action::DropPeer& a) override;

 private:
  void send(const Operation& message, uint64_t bytes);
  void deliver(const Operation& message);
  void receive(uint32_t from, const Operation& message, bool intact);
  void end_serve(const Operation& serve);
  void go_on_sending();

  const RankDesk& desk_;
  RankOperations& operations_;
  RankTiers& tiers_;
  Life& life_;
  PolicyRank& own_;
  std::span<const std::unique_ptr<PolicyRank>> ranks_;
  std::vector<bool> dropped_;       // peers that count as dead here
  std::vector<Operation> held_up_;  // sent to ranks that are stopped
};

}  // namespace foreload::sim
