// SPDX-License-Identifier: Apache-2.0
//
// All decisions of a rank: what to read next and from where, what to keep, when to retry, what to
// deliver. One deterministic state machine, on(event, now) -> actions. No thread, no clock, no I/O,
// no global state: `fetch` drives it with real devices, `sim` with modelled ones, the same object
// code.
//
// The rank's reading list, across epochs, is cut into batches; a window of batches, bounded in
// bytes, is open at a time. Each sample of an open batch is read once: from the tier that holds it,
// otherwise from the source, in reading order as far as the limiter of that path allows. A sample
// that this rank owns is kept in its tier when it arrives. While the source has room and the window
// is full, owned samples further ahead are read into their tiers. Batches are delivered in order.
//
// For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <variant>
#include <vector>

#include "foreload/plan/plan.h"
#include "foreload/policy/limiter.h"

namespace foreload {

// Where a copy of a sample is.
struct Origin {
  enum class Kind : uint8_t { source, tier, peer };
  Kind kind = Kind::source;
  uint32_t number = 0;  // tier, or rank of the peer
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

// How a read ended. `changed`: the object is not the one that was listed.
enum class ReadEnd : uint8_t { ok, transient, throttled, permanent, changed, deadline, missing };

namespace event {
// The order of an epoch, asked for with ComputeEpoch (or given by a sampler).
struct EpochKnown {
  uint64_t epoch;
  std::shared_ptr<const EpochOrder> order;
};
struct ReadEnded {
  uint64_t request;
  ReadEnd end;
};
// A tier has taken a sample, or could not.
struct Placed {
  uint64_t sample;
  uint32_t tier;
  bool ok;
};
// The loop is done with a batch; its memory is free.
struct Consumed {
  uint64_t batch;
};
// The loop asks for a batch that is not delivered yet.
struct Waiting {};
struct Timer {};
// A tier is off from now on; what it held is gone.
struct TierLost {
  uint32_t tier;
};
// Go on from another position; forget what is open. Batch numbers go on.
struct Seek {
  uint64_t epoch;
  uint64_t start;  // samples of that epoch already consumed by all ranks together
};
// Peers: received, unused until ranks talk to each other.
struct PeerUp {
  uint32_t rank;
};
struct PeerDown {
  uint32_t rank;
};
struct PeerRequest {
  uint32_t rank;
  uint64_t sample;
  uint64_t request;
};
struct PeerPush {
  uint32_t rank;
  uint64_t sample;
};
}  // namespace event

using Event = std::variant<event::EpochKnown, event::ReadEnded, event::Placed, event::Consumed,
                           event::Waiting, event::Timer, event::TierLost, event::Seek, event::PeerUp,
                           event::PeerDown, event::PeerRequest, event::PeerPush>;

namespace action {
struct ComputeEpoch {
  uint64_t epoch;
};
// Memory for a batch is needed; Read actions for it follow.
struct OpenBatch {
  uint64_t batch;
  uint64_t epoch;
  uint64_t first;  // position of its first sample in the rank's list of the epoch
  std::vector<uint64_t> samples;
  bool last_of_epoch;
};
// Read a sample into its place; kNoBatch: into memory of the request's own, for a tier.
struct Read {
  uint64_t request;
  uint64_t sample;
  BatchPlace place;
  Origin from;
  RunTime deadline;  // from now
};
struct Cancel {
  uint64_t request;
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
// A place of a batch gets the bytes of another one: a duplicate, or a substitute for a bad sample.
struct Copy {
  BatchPlace from;
  BatchPlace to;
};
// All samples of the batch are there, and all batches before it were delivered.
struct Deliver {
  uint64_t batch;
};
// A sample could not be had; the batch cannot be delivered, nor any after it.
struct Fail {
  uint64_t sample;
  BatchPlace place;
  ReadEnd end;
  unsigned tries;
  RunTime since_first_try;
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
// Memory of a batch that will not be delivered (after Seek) can go, and of a request without batch.
struct CloseBatch {
  uint64_t batch;
};
struct EndOfRun {};
}  // namespace action

using Action = std::variant<action::ComputeEpoch, action::OpenBatch, action::Read, action::Cancel,
                            action::Place, action::Evict, action::Copy, action::Deliver, action::Fail,
                            action::Skip, action::SetTimer, action::CloseBatch, action::EndOfRun>;

struct PolicySettings {
  uint32_t rank = 0;
  uint64_t window_bytes = uint64_t{256} << 20;  // of open batches; one batch is open whatever its size
  uint64_t ahead_bytes = uint64_t{64} << 20;    // in flight beyond the window, on their way to a tier
  bool skip_bad_samples = false;
  unsigned tries = 3;
  RunTime read_deadline = std::chrono::seconds(30);
  RunTime first_back_off = std::chrono::milliseconds(100);  // doubles with every try
  Limiter::Settings source_limiter;
  Limiter::Settings tier_limiter;
  // At most this share of delivered bytes may be read from the source although a copy exists,
  // because the copy would come too late.
  double hedged_share = 0.005;
  bool endless = false;  // go on after the plan's epochs
};

// What the policy knows about itself, for statistics.
struct PolicyTotals {
  uint64_t retries = 0;
  uint64_t hedged_reads = 0;
  uint64_t hedged_bytes = 0;
  uint64_t skipped = 0;
  uint64_t merged = 0;  // reads saved because the sample was on its way already
  uint64_t read_ahead = 0;
  uint64_t window_bytes = 0;  // now
  uint64_t waiting_for_source = 0;
  uint64_t decisions = 0;
};

class Policy {
 public:
  // `held`: what tiers hold at the start, by tier of this rank. The plan is shared and const.
  Policy(std::shared_ptr<const Plan> plan, PolicySettings settings, std::span<const Held> held = {});

  // Appends to `actions`. Time never goes back.
  void on(const Event& event, RunTime now, std::vector<Action>& actions);
  // The first actions of a run that begins at the plan's first epoch and start.
  void begin(RunTime now, std::vector<Action>& actions);

  const Limiter& source_limiter() const { return source_; }
  const Limiter& tier_limiter(uint32_t tier) const { return tiers_[tier]; }
  PolicyTotals totals() const;

 private:
  struct Entry;
  struct Batch;
  struct Request;

  std::shared_ptr<const Plan> plan_;
  PolicySettings settings_;
  Limiter source_;
  std::vector<Limiter> tiers_;
};

}  // namespace foreload
