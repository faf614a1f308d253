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
#include <set>
#include <span>
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
                           event::Timer, event::TierLost, event::Seek, event::PeerUp,
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
// The batch will not be delivered (after Seek); its memory can go.
struct CloseBatch {
  uint64_t batch;
};
}  // namespace action

using Action = std::variant<action::ComputeEpoch, action::OpenBatch, action::Read, action::Cancel,
                            action::Place, action::Evict, action::Copy, action::Deliver,
                            action::Fail, action::Skip, action::SetTimer, action::CloseBatch>;

struct PolicySettings {
  uint32_t rank = 0;
  uint64_t window_bytes = uint64_t{256} << 20;  // of open batches and of samples on their way
                                                // to a disk; one batch is open whatever its size
  uint64_t ahead_bytes = uint64_t{32} << 20;  // in flight beyond the window, on their way to a tier
  bool skip_bad_samples = false;
  // A read from the source is tried this often. One that ran into its deadline counts as all tries
  // but one, so that a source that hangs is given up after two deadlines.
  unsigned tries = 3;
  RunTime read_deadline = std::chrono::seconds(30);
  RunTime first_back_off = std::chrono::milliseconds(100);  // doubles with every try
  Limiter::Settings source_limiter;
  std::vector<Limiter::Settings> tier_limiters;  // by tier; defaults where missing
  bool endless = false;                          // go on after the plan's epochs
};

// What the policy knows about itself, for statistics.
struct PolicyTotals {
  uint64_t retries = 0;
  uint64_t skipped = 0;
  uint64_t merged = 0;              // reads saved because the sample was on its way already
  uint64_t read_ahead = 0;          // samples read into a tier before their batch was open
  uint64_t window_bytes = 0;        // now
  uint64_t waiting_for_source = 0;  // places, now
};

class Policy {
 public:
  // `held`: what tiers of this rank hold at the start. The plan is shared and const.
  // REQUIRES: at most 16 tiers.
  Policy(std::shared_ptr<const Plan> plan, PolicySettings settings,
         std::span<const Held> held = {});

  // The first actions of a run that begins where the plan does.
  void begin(RunTime now, std::vector<Action>& actions);
  // Appends to `actions`. Time never goes back.
  void on(const Event& event, RunTime now, std::vector<Action>& actions);

  const Limiter& source_limiter() const { return source_; }
  const Limiter& tier_limiter(uint32_t tier) const { return tiers_[tier]; }
  PolicyTotals totals() const;

 private:
  // What happens to a sample that no tier has.
  enum class OnItsWay : uint8_t {
    no,
    arriving,  // being read from the source, or queued for that
    placing,   // arrived, on its way into a tier
  };
  // The tiers of this rank that have a sample, one bit each, the fastest lowest.
  using Copies = uint16_t;
  static constexpr uint32_t kMostTiers = 16;
  static Copies bit(uint32_t tier) { return static_cast<Copies>(1u << tier); }

  enum class State : uint8_t { waiting, reading, ready, bad };
  struct Entry {
    uint64_t sample;
    State state = State::waiting;
    unsigned tries = 0;
    ReadEnd end = ReadEnd::ok;
    RunTime first_try{0};
  };
  struct Batch {
    uint64_t number = 0;
    uint64_t bytes = 0;
    uint32_t pending = 0;  // entries neither ready nor bad
    bool delivered = false;
    bool failed = false;
    std::vector<Entry> entries;
  };
  // A read in flight. Its id is its slot and a generation, so that late answers are recognised.
  struct Request {
    uint32_t generation = 0;
    bool active = false;
    Origin from;
    uint64_t sample = 0;
    BatchPlace place;
  };
  struct Retry {
    RunTime at;
    BatchPlace place;
    friend auto operator<=>(const Retry&, const Retry&) = default;
  };

  using Actions = std::vector<Action>;

  void handle(const event::EpochKnown& e, RunTime now, Actions& actions);
  void handle(const event::ReadEnded& e, RunTime now, Actions& actions);
  void handle(const event::Placed& e, RunTime now, Actions& actions);
  void handle(const event::Consumed& e, RunTime now, Actions& actions);
  void handle(const event::Timer& e, RunTime now, Actions& actions);
  void handle(const event::TierLost& e, RunTime now, Actions& actions);
  void handle(const event::Seek& e, RunTime now, Actions& actions);
  template <class Ignored>
  void handle(const Ignored&, RunTime, Actions&) {}

  // The reading list as a cursor.
  const EpochOrder* known_order(uint64_t epoch, Actions& actions);
  Sharding sharding_of(uint64_t epoch, const EpochOrder& order) const;
  bool past_the_end(uint64_t epoch) const;

  void go_on(RunTime now, Actions& actions);
  void open_batches(Actions& actions);
  bool prepare_next_batch(Actions& actions);
  void open_prepared_batch(Actions& actions);
  void queue(BatchPlace place);
  void start_reads(RunTime now, Actions& actions);
  void read_ahead(RunTime now, Actions& actions);
  void start(Limiter& limiter, Origin from, uint64_t sample, BatchPlace place, bool waiting,
             RunTime now, Actions& actions);
  void deliver(Actions& actions);

  void arrived(const Request& request, uint64_t id, Actions& actions);
  void place(const Request& request, uint64_t id, uint32_t tier, Actions& actions);
  void not_arrived(const Request& request, ReadEnd end, RunTime now, Actions& actions);
  void give_up(BatchPlace place, RunTime now, Actions& actions);
  void wake_waiters(uint64_t sample);
  void settle(Batch& batch, Entry& entry, State state);

  Batch* batch_of(uint64_t number);
  Entry* entry_of(BatchPlace place);
  bool keeps(uint64_t sample, uint32_t& tier) const;

  std::shared_ptr<const Plan> plan_;
  PolicySettings settings_;
  Limiter source_;
  std::vector<Limiter> tiers_;
  std::vector<bool> tier_alive_;
  std::vector<OnItsWay> on_its_way_;  // by sample
  std::vector<Copies> copies_;        // by sample

  std::map<uint64_t, std::shared_ptr<const EpochOrder>> orders_;  // of this epoch and the next
  uint64_t computing_ = kNoBatch;                                 // epoch asked for, not known yet
  // The next batch to open, and the samples of its epoch consumed before the run.
  uint64_t next_epoch_ = 0;
  uint64_t next_batch_in_epoch_ = 0;
  uint64_t resumed_epoch_ = 0;
  uint64_t resumed_start_ = 0;
  uint64_t next_number_ = 0;

  // The next batch, computed but not open yet for lack of room.
  struct Prepared {
    std::vector<uint64_t> samples;
    uint64_t bytes = 0;
    bool last_of_epoch = false;
  };
  std::optional<Prepared> prepared_;

  std::deque<Batch> batches_;  // open ones, numbers ascending without gaps
  uint64_t next_delivery_ = 0;
  uint64_t open_bytes_ = 0;
  std::deque<BatchPlace> for_source_;
  std::vector<std::deque<BatchPlace>> for_tier_;
  // Places that wait for a sample that is on its way for somebody else.
  std::unordered_map<uint64_t, std::vector<BatchPlace>> waiters_;
  std::set<Retry> retries_;

  // Reading ahead: the next position to look at.
  uint64_t ahead_epoch_ = 0;
  uint64_t ahead_position_ = 0;
  uint64_t ahead_in_flight_ = 0;  // bytes
  uint64_t placing_bytes_ = 0;    // to tiers other than the first

  std::vector<Request> requests_;
  std::vector<uint32_t> free_requests_;
  PolicyTotals totals_;
};

}  // namespace foreload
