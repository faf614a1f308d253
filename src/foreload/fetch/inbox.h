// SPDX-License-Identifier: Apache-2.0
//
// Where everything that happens reaches the engine's loop: answers of sources and tiers, finished
// work of hands, wishes of the consumer. It exists before the engine and outlives it, because tiers
// are opened before the plan is made and threads may still answer while the engine ends.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "foreload/peers/wire.h"
#include "foreload/policy/policy.h"
#include "foreload/stores/source.h"
#include "foreload/tiers/checked_copy.h"
#include "foreload/tiers/tier.h"

namespace foreload {

namespace message {
struct TierAnswered {
  uint32_t tier;
  std::vector<TierAnswer> answers;
};
// A sample was looked for in the memory of other ranks on this host; `neighbour` is the last one.
struct NeighbourRead {
  uint64_t request;
  Copied copied;
  uint32_t neighbour;
};
// What was read from the source was made into the form in which samples are kept. `error`: why it
// could not be.
struct Made {
  uint64_t request;
  uint64_t sample;
  std::optional<std::string> error;
  std::chrono::nanoseconds took;
};
// A sample was decoded to its place. `error`: why it could not be.
struct Decoded {
  BatchPlace place;
  uint64_t sample;
  std::optional<std::string> error;
  std::chrono::nanoseconds took;
};
// From a peer; `bytes` of `keeper` are its payload. Not `intact`: they are not what was sent.
struct PeerMessage {
  uint32_t from;
  WireMessage message;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keeper;
  bool intact;
};
// A message to a peer has left, or never will.
struct PeerSent {
  uint64_t id;
};
struct Stop {};
}  // namespace message

using Message =
    std::variant<SourceAnswer, message::TierAnswered, message::NeighbourRead, message::Made,
                 message::Decoded, message::PeerMessage, message::PeerSent, Event, message::Stop>;

class Inbox {
 public:
  void post(Message message);
  void post(std::vector<Message> messages);
  // Without waking the loop, which finds the message when something else does, wake() for one. For
  // news that nobody waits for yet.
  void leave(Message message);
  void wake();
  // Waits for messages until `until`, then moves all there are to `messages` (emptied first).
  void take(std::vector<Message>& messages, std::optional<SteadyTime> until);

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<Message> messages_;
  bool woken_ = false;  // since the last take(); only while there are messages
};

}  // namespace foreload
