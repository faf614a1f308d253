// SPDX-License-Identifier: Apache-2.0
//
// What comes from one peer of the host transport: takes a connection's bytes apart into messages.
// Small ones pass through a buffer, the bulk of a payload is read straight into its place. Private
// to the host transport's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "foreload/peers/host_socket.h"
#include "foreload/peers/transport.h"

namespace foreload::peers {

class HostStream {
 public:
  struct Limits {
    uint32_t own_rank = 0;
    uint32_t ranks = 0;
  };

  explicit HostStream(Descriptor connection);

  // Reads what is there, about `most` bytes, and makes the calls, none for a rank that is
  // `ignored`. False: the connection has ended, or what came over it makes no sense.
  bool read(size_t most, const Limits& limits, const TransportCalls& calls,
            const std::function<bool(uint32_t)>& ignored);
  // The message that was arriving is cut short.
  void cut(const TransportCalls& calls);
  // Who sends here, once that is known.
  std::optional<uint32_t> from() const { return from_; }

 private:
  struct Message {
    std::vector<std::byte> header;
    PayloadPlace place;
    uint64_t bytes = 0;
    uint64_t arrived = 0;
  };

  bool take_apart(const Limits& limits, const TransportCalls& calls,
                  const std::function<bool(uint32_t)>& ignored);
  void end_message(const TransportCalls& calls);
  size_t buffered() const { return end_ - begin_; }

  const Descriptor connection_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;  // of what was read and not taken apart
  std::optional<uint32_t> from_;
  std::optional<Message> message_;  // whose payload is arriving
};

}  // namespace foreload::peers
