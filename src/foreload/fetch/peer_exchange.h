// SPDX-License-Identifier: Apache-2.0
//
// What passes between this rank and its peers, but for its own reads: serves what they ask for,
// pushes to them, takes what they push, and tells the policy what they say.
//
// For the loop thread. Without peers it is never called.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>

#include "foreload/fetch/inbox.h"
#include "foreload/fetch/loop_parts.h"
#include "foreload/fetch/peer_link.h"
#include "foreload/fetch/pending_reads.h"
#include "foreload/policy/driver.h"

namespace foreload {

class PeerExchange : public PeerDriver {
 public:
  PeerExchange(LoopParts& parts, PendingReads& reads) : parts_(parts), reads_(reads) {}

  void carry(action::Serve& a) override;
  void carry(action::Refuse& a) override { parts_.peers->refuse(a.rank, a.request); }
  void carry(action::HoldPush& a) override;
  void carry(action::SendPush& a) override;
  void carry(action::EndPush& a) override { pushes_.erase(a.push); }
  void carry(action::TellUnread& a) override;
  void carry(action::PlacePushed& a) override;
  void carry(action::AnswerPush& a) override;
  void carry(action::Ping& a) override { parts_.peers->ping(a.rank); }
  void carry(action::DropPeer& a) override;

  void handle(message::PeerMessage& message);
  void handle(message::PeerSent& sent);
  // A tier has read what a peer asked for, or could not.
  void end_serving(uint64_t number, const TierAnswer& answer);

 private:
  // A sample that a tier reads for a peer.
  struct Serving {
    uint32_t rank;
    uint64_t request;
    uint64_t sample;
    uint32_t tier;
    std::shared_ptr<Slot> memory;
  };
  using PushKey = std::pair<uint32_t, uint64_t>;  // rank and number of a push to this rank

  LoopParts& parts_;
  PendingReads& reads_;
  std::unordered_map<uint64_t, Serving> serving_;  // by number
  uint64_t next_serving_ = 1;
  std::unordered_map<uint64_t, PeerLink::Payload> pushes_;  // to peers
  std::map<PushKey, std::pair<std::span<const std::byte>, std::shared_ptr<const void>>>
      pushed_;  // by peers, until they are answered
};

}  // namespace foreload
