// SPDX-License-Identifier: Apache-2.0
//
// Carries messages between the ranks of a job: a small header and a payload that is sent from, and
// received into, memory of the user's. It decides nothing, retries nothing and has no time-outs of
// its own beyond joining; who is dead, the policy says. Kinds: in-process (tests, simulation), UCX,
// MPI. UCX and MPI are components that are loaded at run time, so that the package works without
// them; load_transport() finds them.
//
// Messages between two ranks arrive in the order they were sent, or not at all. Connections are
// made when first needed. Threads of the transport sleep while nothing happens.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/peers/rendezvous.h"

namespace foreload {

inline constexpr size_t kMostHeaderBytes = 256;
inline constexpr uint64_t kMostPayloadBytes = uint64_t{4} << 30;

// Memory for a payload; whoever holds `keeper` keeps it.
struct PayloadPlace {
  std::byte* data = nullptr;  // null: the payload is not wanted and is dropped
  std::shared_ptr<const void> keeper;
};

struct OutgoingMessage {
  uint64_t id = 0;                     // the caller's; comes back with `sent`
  std::span<const std::byte> header;   // copied by send(); at most kMostHeaderBytes
  std::span<const std::byte> payload;  // stays where it is until `sent`
  std::shared_ptr<const void> keeper;  // of the payload
};

// What a transport calls, from threads of its own, one call at a time. None of them may block; all
// may call send() and drop().
struct TransportCalls {
  // A message with a payload begins to arrive: where shall its payload go? Called only for messages
  // whose header passed the transport's own checks (length, authentication of the header).
  std::function<PayloadPlace(uint32_t from, std::span<const std::byte> header, uint64_t bytes)>
      incoming;
  // It has arrived; `place` is what `incoming` gave (empty for messages without payload). `intact`
  // is false if the payload was cut short or its authentication failed.
  std::function<void(uint32_t from, std::span<const std::byte> header, PayloadPlace place,
                     uint64_t bytes, bool intact)>
      arrived;
  // A message left (the payload's memory is free again), or never will. Exactly once a message.
  std::function<void(uint64_t id, bool ok)> sent;
  // The transport noticed that a peer is gone. At most once a peer until it is connected again.
  std::function<void(uint32_t rank, const std::string& why)> lost;
};

struct TransportSettings {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::chrono::milliseconds join_timeout{60'000};
  std::string interface;            // of the network to listen on; empty: that of the rendezvous
  std::array<std::byte, 16> key{};  // secret of the job, for transports that authenticate
  std::shared_ptr<Rendezvous> rendezvous;  // where addresses are exchanged; not needed by MPI
};

class Transport {
 public:
  // Ends all traffic; answers what was not sent with `sent(id, false)` and returns within two
  // seconds whatever the peers do. No call is made after that.
  virtual ~Transport() = default;

  // Never blocks on the network; any thread. REQUIRES: to < ranks, not the own rank.
  virtual void send(uint32_t to, OutgoingMessage message) = 0;
  // The peer is considered dead: what is under way to it is answered `sent(id, false)`, what comes
  // from it is ignored from now on.
  virtual void drop(uint32_t rank) = 0;
  // "ucx (tcp, eth0)", for people.
  virtual std::string describe() const = 0;
};

}  // namespace foreload
