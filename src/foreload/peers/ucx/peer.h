// SPDX-License-Identifier: Apache-2.0
//
// What the UCX transport knows about one peer: its address, the keys of both directions, the
// endpoint while there is one, and the messages on their way. Private to the UCX transport's
// thread.
#pragma once

#include <ucp/api/ucp.h>

#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreload/peers/ucx/frame.h"

namespace foreload::ucx {

class UcxTransport;

// A message that waits, or whose frames UCX has. Answered when all of them are back.
struct Sending {
  uint32_t to = 0;
  uint64_t id = 0;
  std::vector<std::byte> header;
  std::span<const std::byte> payload;
  std::shared_ptr<const void> keeper;

  uint64_t given = 0;  // bytes of the payload that were given to UCX
  bool begun = false;
  bool failed = false;
  bool answered = false;
  size_t frames = 0;  // with UCX

  bool all_given() const { return begun && given == payload.size(); }
};

// What UCX reads from until it says that the frame left.
struct FrameOut {
  UcxTransport* transport = nullptr;
  std::shared_ptr<Sending> message;
  std::vector<std::byte> bytes;
};

// A message of which not all has arrived.
struct Receiving {
  std::vector<std::byte> header;
  PayloadPlace place;
  uint64_t bytes = 0;
  uint64_t arrived = 0;
};

struct Peer {
  uint32_t rank = 0;
  UcxTransport* transport = nullptr;
  std::string address;  // of its worker
  RunNonce nonce{};

  std::optional<Seal> to;  // made when first needed
  std::optional<Seal> from;
  uint64_t last_sent = 0;      // count of the last frame
  uint64_t last_received = 0;  // the same, of those that were accepted

  ucp_ep_h endpoint = nullptr;
  bool connected = false;                        // a frame left through the endpoint
  std::deque<std::shared_ptr<Sending>> waiting;  // not all given to UCX
  size_t frames = 0;                             // with UCX
  std::optional<Receiving> receiving;
  bool lost = false;  // and reported; until something comes from it again
  bool dropped = false;
  std::atomic<bool> ignored = false;  // the same, at once and by whoever called drop()
};

}  // namespace foreload::ucx
