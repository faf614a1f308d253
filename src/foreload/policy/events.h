// SPDX-License-Identifier: Apache-2.0
//
// What happens to a rank, as the policy is told: reads that ended, batches that were consumed,
// words of peers. Plain data.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "foreload/plan/order.h"
#include "foreload/policy/limiter.h"

namespace foreload {

// Where a copy of a sample is. `peer` is asked for it; the memory of a `neighbour`, a rank on the
// same host, is read in place.
struct Origin {
  enum class Kind : uint8_t { source, tier, peer, neighbour };
  Kind kind = Kind::source;
  uint32_t number =
      0;  // tier, or rank of the peer or neighbour; kNoOwner: any neighbour that has it
  friend bool operator==(const Origin&, const Origin&) = default;
};

// A sample's place in a batch. Batches are numbered through the whole run, from 0.
struct BatchPlace {
  uint64_t batch = 0;
  uint32_t index = 0;
  friend auto operator<=>(const BatchPlace&, const BatchPlace&) = default;
};

// Stands for "no batch": a read whose bytes only go to a tier.
inline constexpr uint64_t kNoBatch = UINT64_MAX;

// Fetches, random access beside the ordered batches, are batches whose numbers begin here.
inline constexpr uint64_t kFetches = uint64_t{1} << 63;
inline bool is_fetch(uint64_t batch) {
  return batch >= kFetches && batch != kNoBatch;
}

// How a read ended. `changed`: the object is not the one that was listed. `undecodable`: it was
// read, and its bytes are not what they should be.
enum class ReadEnd : uint8_t {
  ok,
  transient,
  throttled,
  permanent,
  changed,
  deadline,
  missing,
  undecodable
};

// Stands for "no push": a peer says that a sample cannot be read there.
inline constexpr uint64_t kNoPush = 0;

// What became of a push.
enum class PushEnd : uint8_t { kept, refused };

namespace event {
// The order of an epoch: asked for with ComputeEpoch, or beyond what was known at the start, and
// just given.
struct EpochKnown {
  uint64_t epoch;
  std::shared_ptr<const EpochOrder> order;
};
struct ReadEnded {
  uint64_t request;
  ReadEnd end;
};
// A read from the source did not begin: another loader has put the sample into this tier. REQUIRES:
// this rank owns the sample, or has no peers.
struct Found {
  uint64_t request;
  uint32_t tier;
};
// A tier has taken a sample, or could not.
struct Placed {
  uint64_t sample;
  uint32_t tier;
  bool ok;
};
// What was read from the source is in the form in which samples are kept, or cannot be.
struct Made {
  uint64_t request;
  bool ok;
};
// A sample was decoded into its place, or could not be.
struct Decoded {
  BatchPlace place;
  bool ok;
};
// The loop is done with a batch; its memory is free.
struct Consumed {
  uint64_t batch;
};
struct Timer {};
// A tier is off from now on; what it held is gone.
struct TierLost {
  uint32_t tier;
};
// Go on from another position; forget what is open. Batch numbers go on.
struct Seek {
  uint64_t epoch;
  // Samples of that epoch already consumed by all ranks together. A list that is given for it is
  // what comes after them.
  uint64_t start;
};
// Somebody wants these samples now, whatever the reading list says, or does not want them any more.
// `batch` is is_fetch() and new. OpenBatch follows, Fail for each sample that cannot be had, and
// Deliver. REQUIRES: samples that there are, at least one.
struct Fetch {
  uint64_t batch;
  std::vector<uint64_t> samples;
  bool as_bytes = false;  // even if batches are decoded
};
struct ForgetFetch {
  uint64_t batch;
};
// A peer is gone: it has left in good order, or the transport noticed that it died.
struct PeerDown {
  uint32_t rank;
  bool in_order = false;
};
// Something came from a peer.
struct PeerHeard {
  uint32_t rank;
};
// A peer asks for a sample, or does not want it any more.
struct PeerRequest {
  uint32_t rank;
  uint64_t sample;
  uint64_t request;
};
struct PeerCancel {
  uint32_t rank;
  uint64_t request;
};
// A sample was sent to a peer that had asked for it; not `ok`: the tier did not have it.
struct Served {
  uint32_t rank;
  uint64_t request;
  uint64_t sample;
  uint32_t tier;
  bool ok;
};
// A peer has pushed a sample; its bytes wait until the push is answered. Not `intact`: they are not
// what was sent; with kNoPush, there are none and nobody waits for an answer.
struct PeerPush {
  uint32_t rank;
  uint64_t sample;
  uint64_t push;
  bool intact = true;
};
// A peer has answered a push of ours.
struct PushAnswered {
  uint64_t push;
  PushEnd end;
};
}  // namespace event

using Event = std::variant<event::EpochKnown, event::ReadEnded, event::Found, event::Placed,
                           event::Made, event::Decoded, event::Consumed, event::Timer,
                           event::TierLost, event::Seek, event::Fetch, event::ForgetFetch,
                           event::PeerDown, event::PeerHeard, event::PeerRequest, event::PeerCancel,
                           event::Served, event::PeerPush, event::PushAnswered>;

}  // namespace foreload
