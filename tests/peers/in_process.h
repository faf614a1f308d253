// SPDX-License-Identifier: Apache-2.0
//
// A transport between ranks inside one process. Messages are delivered by a thread of the network,
// or by hand: then nothing happens except in step(), run() and deliver(), in an order that depends
// on the calls alone. Faults can be made in both modes: messages lost or changed, links cut, ranks
// killed.
//
// The transports may be used from any thread. By hand, one thread at a time steps.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "foreload/peers/transport.h"

namespace foreload {

class InProcessNetwork {
 public:
  enum class Delivery { by_thread, by_hand };

  explicit InProcessNetwork(uint32_t ranks, Delivery delivery = Delivery::by_thread);
  // REQUIRES: by thread, that all transports are gone.
  ~InProcessNetwork();
  InProcessNetwork(const InProcessNetwork&) = delete;
  InProcessNetwork& operator=(const InProcessNetwork&) = delete;

  // REQUIRES: rank < ranks, not joined before. The transport may outlive the network by hand.
  // A rank that leaves (its transport ends) is noticed by the others as `lost`.
  std::unique_ptr<Transport> join(uint32_t rank, TransportCalls calls);

  // A message that was sent and has not arrived.
  struct Parcel {
    uint64_t number = 0;  // grows with every message of the network
    uint32_t from = 0;
    uint32_t to = 0;
    uint64_t id = 0;
    std::vector<std::byte> header;
    uint64_t payload_bytes = 0;
  };
  // In the order they were sent.
  std::vector<Parcel> under_way() const;

  // By hand: makes one call or delivers the oldest message that may arrive (both ranks joined, the
  // link not cut). False if there is nothing to do.
  bool step();
  // Steps until nothing is left to do, at most so often; returns how often.
  size_t run(size_t most = SIZE_MAX);
  // Delivers this one before older ones. False if it may not arrive, or would overtake one of the
  // same pair.
  bool deliver(uint64_t number);

  // Faults. Messages are named by their parcel's number; those that have arrived are left alone.
  // The message never arrives. The sender hears `sent` with what `noticed` says.
  void lose(uint64_t number, bool noticed);
  // Changes one byte, in a copy: what the sender keeps stays as it was.
  void change_header(uint64_t number, size_t at, std::byte difference);
  void change_payload(uint64_t number, uint64_t at, std::byte difference);
  // While a link is cut, messages on it wait, both ways.
  void cut(uint32_t a, uint32_t b);
  void mend(uint32_t a, uint32_t b);
  // The rank is gone as by kill -9: no more calls to it, nothing more from it. If `noticed`, the
  // others hear `lost`, and `sent(false)` for what was under way to it; if not, that waits until
  // they drop it.
  void kill(uint32_t rank, bool noticed);

 private:
  struct State;
  class Endpoint;
  std::shared_ptr<State> state_;
};

}  // namespace foreload
