// SPDX-License-Identifier: Apache-2.0
//
// Carries messages between the ranks of a job: a small header and a payload that is sent from, and
// received into, memory of the user's. It decides nothing, retries nothing and has no time-outs of
// its own beyond joining; who is dead, the policy says. Kinds: the host's own sockets, UCX, MPI.
// UCX and MPI are modules behind a border in C (component.h), opened at run time with the libraries
// they need, so that the package works without those; load_transport() finds them.
//
// Messages between two ranks arrive in the order they were sent, or not at all. Connections are
// made when first needed. Threads of the transport sleep while nothing happens.
//
// Back-pressure is the caller's: a message that is not yet `sent` costs its header and a few
// hundred bytes, and its payload stays where it is, so whoever bounds the messages it has not heard
// `sent` of bounds the memory on both sides.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "foreload/base/result.h"
#include "foreload/peers/rendezvous.h"

namespace foreload {

inline constexpr size_t kMostHeaderBytes = 256;
inline constexpr uint64_t kMostPayloadBytes = uint64_t{4} << 30;
inline constexpr uint32_t kMostRanks = 1u << 20;  // a number above is a mistake, not a job

// Memory for a payload; whoever holds `keeper` keeps it.
struct PayloadPlace {
  std::byte* data = nullptr;  // null: the payload is not wanted and is dropped
  std::shared_ptr<const void> keeper;
};

struct OutgoingMessage {
  uint64_t id = 0;                     // the caller's; comes back with `sent`
  std::span<const std::byte> header;   // copied by send(); 1 to kMostHeaderBytes
  std::span<const std::byte> payload;  // stays where it is until `sent`; at most kMostPayloadBytes
  // Of the payload. Held for as long as the network may read it: until `sent`, or longer for a
  // message that was given up and that the network does not give back (MPI).
  std::shared_ptr<const void> keeper;
};

// What a transport calls, from threads of its own, one call at a time, the first perhaps before the
// function that made the transport has returned. None of them may block; all may call send() and
// drop(), none may end the transport.
struct TransportCalls {
  // A message with a payload begins to arrive: where shall its payload go? Called only for messages
  // whose header passed the transport's own checks (length, authentication of the header).
  std::function<PayloadPlace(uint32_t from, std::span<const std::byte> header, uint64_t bytes)>
      incoming;
  // It has arrived; `place` is what `incoming` gave (empty for messages without payload). `intact`
  // is false if the payload was cut short or its authentication failed. Once for every `incoming`,
  // unless the peer was dropped or the transport ended meanwhile; the place is let go then.
  std::function<void(uint32_t from, std::span<const std::byte> header, PayloadPlace place,
                     uint64_t bytes, bool intact)>
      arrived;
  // A message left (the payload's memory is free again), or never will. Exactly once a message. It
  // does not say that the message arrived.
  std::function<void(uint64_t id, bool ok)> sent;
  // The transport noticed that a peer is gone. At most once a peer until it is connected again; a
  // transport that notices nothing stays silent.
  std::function<void(uint32_t rank, const std::string& why)> lost;
};

// The secret of a job, from which the keys of transports that authenticate are derived.
using JobSecret = std::array<std::byte, 32>;

struct TransportSettings {
  uint32_t rank = 0;
  uint32_t ranks = 1;
  std::chrono::milliseconds join_timeout{60'000};
  std::string interface;                   // of the network to listen on; empty: the transport's
                                           // choice, which describe() tells
  JobSecret secret{};                      // for transports that authenticate; zeros are refused
  std::shared_ptr<Rendezvous> rendezvous;  // where addresses are exchanged; not needed by MPI
  std::filesystem::path components;        // folder of the modules; empty: beside the program
  // Folders with libucp.so.0: `ucx` is the only one that counts, if it is given; `ucx_package`
  // counts where the system has none. Of the process: the first that was opened stays.
  std::filesystem::path ucx;
  std::filesystem::path ucx_package;
};

class Transport {
 public:
  // Ends all traffic; answers what was not sent with `sent(id, false)` and returns within two
  // seconds whatever the peers do. No call is made after that.
  virtual ~Transport() = default;

  // Never blocks on the network, makes no call itself; any thread. REQUIRES: to < ranks, not the
  // own rank; sizes within their bounds.
  virtual void send(uint32_t to, OutgoingMessage message) = 0;
  // The peer is considered dead for good: what is under way to it, and what is sent to it later, is
  // answered `sent(id, false)`, what comes from it is ignored from now on.
  virtual void drop(uint32_t rank) = 0;
  // "ucx (tcp, eth0)", for people.
  virtual std::string describe() const = 0;
};

// Makes a transport, "host", "ucx" or "mpi", and joins the job: waits until all ranks have given
// their addresses. Fails with `unreadable` if the module or its library is not installed (the
// message says what to install) or the network cannot be used, `cancelled` if ranks are missing
// when the time to join is over (the message names them), `invalid` for settings that make no
// sense.
Result<std::unique_ptr<Transport>> load_transport(const std::string& kind,
                                                  const TransportSettings& settings,
                                                  TransportCalls calls);
// A rendezvous over the network of a module; only "mpi" has one. All ranks of the job call it.
// Fails as load_transport() does.
Result<std::unique_ptr<Rendezvous>> load_rendezvous(const std::string& kind,
                                                    const TransportSettings& settings);
// Whether the module and its library are there; fails as load_transport() does if not.
Result<void> find_transport(const std::string& kind, const TransportSettings& settings);

}  // namespace foreload
