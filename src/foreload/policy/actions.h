// SPDX-License-Identifier: Apache-2.0
//
// What the policy wants done: reads, deliveries, words to peers. Plain data; whoever drives the
// policy carries actions out in the order given.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "foreload/plan/sharding.h"
#include "foreload/policy/events.h"

namespace foreload {

namespace action {
struct ComputeEpoch {
  uint64_t epoch;
};
// Memory for a batch is needed; Read actions for it follow.
struct OpenBatch {
  uint64_t batch;
  uint64_t epoch;
  uint64_t first;     // position of its first sample in the rank's list of the epoch
  Sharding sharding;  // gives the place of each sample in what all ranks read in the epoch
  std::vector<uint64_t> samples;
  bool last_of_epoch;
  bool as_bytes = false;  // a fetch that is not decoded
};
// Read a sample into its place; kNoBatch: into memory of the request's own, for a tier. A `hedge`
// is a second read for a place: into memory of its own too, which becomes the place's if it ends
// first. A `detour` reads the source although there is a copy, which would come too late.
struct Read {
  uint64_t request;
  uint64_t sample;
  BatchPlace place;
  Origin from;
  RunTime deadline;  // from now
  bool hedge = false;
  bool detour = false;
};
// The read, or the making after it, does not count any more. What it may still write is not the
// place's.
struct Cancel {
  uint64_t request;
};
// Make of what a read from the source has just brought the form in which samples are kept, in the
// place of that read; kNoBatch: in memory of the request's own. Made follows, unless it is
// cancelled.
struct Make {
  uint64_t request;
  uint64_t sample;
  BatchPlace place;
};
// Decode the bytes in this place.
struct Decode {
  uint64_t sample;
  BatchPlace place;
};
// Keep a sample that has just arrived (by which request, into which place) in a tier.
struct Place {
  uint64_t request;
  uint64_t sample;
  BatchPlace place;
  uint32_t tier;
};
// Forget a sample in a tier.
struct Evict {
  uint64_t sample;
  uint32_t tier;
};
// A place of a batch gets the bytes of another one, which has the same sample.
struct Copy {
  BatchPlace from;
  BatchPlace to;
};
// A place whose sample is bad gets what another place of its batch has, decoded where that is done.
struct Substitute {
  BatchPlace from;
  BatchPlace to;
};
// A tier answers no more; it is given up.
struct LoseTier {
  uint32_t tier;
};
// All samples of the batch are there, and all batches before it were delivered; of a fetch, all
// that can be had.
struct Deliver {
  uint64_t batch;
};
// A sample could not be had; the batch cannot be delivered, nor any after it. A fetch is delivered
// without it.
struct Fail {
  uint64_t sample;
  BatchPlace place;
  ReadEnd end;
  unsigned tries;
  RunTime since_first_try;
  bool skipping = false;  // bad samples are left out, but all of this batch are bad
};
// A sample could not be had and is left out, as the user wished.
struct Skip {
  uint64_t sample;
  BatchPlace place;
  ReadEnd end;
};
struct SetTimer {
  RunTime at;
};
// The batch will not be delivered (after Seek); its memory can go.
struct CloseBatch {
  uint64_t batch;
};
// Send a sample from a tier to a peer that asked for it; Served follows.
struct Serve {
  uint32_t rank;
  uint64_t request;
  uint64_t sample;
  uint32_t tier;
};
// Tell a peer that the sample it asked for is not here.
struct Refuse {
  uint32_t rank;
  uint64_t request;
};
// Hold the bytes of a sample that has just arrived (by which request, into which place) until
// EndPush, to be pushed to its owner.
struct HoldPush {
  uint64_t push;
  uint64_t request;
  uint64_t sample;
  BatchPlace place;
};
struct SendPush {
  uint64_t push;
  uint32_t rank;
  uint64_t sample;
};
struct EndPush {
  uint64_t push;
};
// Tell the keeper of a sample that it cannot be read here and will not be pushed.
struct TellUnread {
  uint32_t rank;
  uint64_t sample;
};
// Keep a sample that a peer has pushed; Placed follows.
struct PlacePushed {
  uint32_t rank;
  uint64_t push;
  uint64_t sample;
  uint32_t tier;
};
// Tell a peer what became of its push; the bytes can go.
struct AnswerPush {
  uint32_t rank;
  uint64_t push;
  PushEnd end;
};
// Ask a peer for a sign of life.
struct Ping {
  uint32_t rank;
};
// The peer counts as dead from now on; nothing is sent to it any more.
struct DropPeer {
  uint32_t rank;
  bool in_order = false;  // it has left by itself
};
}  // namespace action

using Action =
    std::variant<action::ComputeEpoch, action::OpenBatch, action::Read, action::Cancel,
                 action::Make, action::Decode, action::Place, action::Evict, action::Copy,
                 action::Substitute, action::LoseTier, action::Deliver, action::Fail, action::Skip,
                 action::SetTimer, action::CloseBatch, action::Serve, action::Refuse,
                 action::HoldPush, action::SendPush, action::EndPush, action::TellUnread,
                 action::PlacePushed, action::AnswerPush, action::Ping, action::DropPeer>;

}  // namespace foreload
