// SPDX-License-Identifier: Apache-2.0
//
// What the engine says to peers, and what it hears from them: the policy's words as messages of the
// wire format. Payloads are received where they belong: a reply into the place of its request, a
// push into memory of its own. They are checked against their checksums before anybody hears of
// them.
//
// Made before the transport, which calls it, and attached to it after joining. The functions that
// send are the engine's loop's; the transport calls from its threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>

#include "foreload/fetch/inbox.h"
#include "foreload/peers/transport.h"
#include "foreload/peers/wire.h"
#include "foreload/plan/plan.h"
#include "foreload/staging/staging.h"

namespace foreload {

class PeerLink {
 public:
  // Bytes of a sample on their way to a peer.
  struct Payload {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> keeper;
    uint64_t version = 0;
    uint64_t checksum = 0;
  };

  // Whether a rank that cannot be reached any more has ended as it should.
  using HasLeft = std::function<bool(uint32_t rank)>;

  // Pushes are checked against the plan's sizes.
  PeerLink(std::shared_ptr<Inbox> inbox, std::shared_ptr<Staging> staging,
           std::shared_ptr<const Plan> plan, HasLeft has_left)
      : inbox_(std::move(inbox)),
        staging_(std::move(staging)),
        plan_(std::move(plan)),
        has_left_(std::move(has_left)) {}

  // For the transport, which must not outlive the link.
  TransportCalls calls();
  // Messages may arrive before; nothing is sent before. REQUIRES: once.
  void attach(std::unique_ptr<Transport> transport) { transport_ = std::move(transport); }

  void ask(uint32_t rank, uint64_t request, uint64_t sample, std::span<std::byte> into,
           std::shared_ptr<const void> keeper);
  // The answer does not matter any more. What is arriving just now may still be written to its
  // place.
  void cancel(uint32_t rank, uint64_t request);
  // `id` comes back in message::PeerSent when the bytes have left.
  void reply(uint32_t rank, uint64_t request, uint64_t id, const Payload& payload);
  void refuse(uint32_t rank, uint64_t request);
  void push(uint32_t rank, uint64_t push, uint64_t sample, const Payload& payload);
  void answer_push(uint32_t rank, uint64_t push, PushEnd end);
  void ping(uint32_t rank);
  void pong(uint32_t rank, uint64_t number);
  void drop(uint32_t rank);
  // To all peers that there was anything to say to.
  void say_goodbye();
  std::string describe() const { return transport_->describe(); }

 private:
  struct Asked {
    uint32_t rank;
    std::span<std::byte> into;
    std::shared_ptr<const void> keeper;
  };

  void send(uint32_t rank, const WireMessage& message);
  void send(uint32_t rank, const WireMessage& message, uint64_t id, const Payload& payload);
  bool is_sample(uint64_t sample, uint64_t bytes) const;
  PayloadPlace incoming(uint32_t from, std::span<const std::byte> header, uint64_t bytes);
  void arrived(uint32_t from, std::span<const std::byte> header, PayloadPlace place, uint64_t bytes,
               bool intact);

  const std::shared_ptr<Inbox> inbox_;
  const std::shared_ptr<Staging> staging_;
  const std::shared_ptr<const Plan> plan_;
  const HasLeft has_left_;
  std::set<uint32_t> spoken_to_;               // the loop's
  std::mutex mutex_;                           // guards the next
  std::unordered_map<uint64_t, Asked> asked_;  // by request
  std::unique_ptr<Transport> transport_;
};

}  // namespace foreload
