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
// With peers, ranks act as one cache. A sample's first reader in the run reads it from the source
// and pushes it to the sample's owner; everybody else asks the owner, who makes them wait as long
// as the push is still to come. Memory of ranks on the same host is read in place, before anybody
// is asked. A peer that was silent for the peer timeout while something was owed is dead for the
// rest of the run: what it owned is adopted by survivors, those that have a replica first, then
// those that have room. Replicas are kept as they come by and give way to what is adopted.
//
// A read that the next batch waits for and that takes far longer than reads on its path usually do
// is hedged: the sample is read a second time, from another copy or the source, and the first to
// arrive is taken. Hedged reads stay below a small share of all bytes.
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
#include "foreload/policy/actions.h"
#include "foreload/policy/events.h"
#include "foreload/policy/fifo.h"
#include "foreload/policy/limiter.h"
#include "foreload/policy/pace.h"
#include "foreload/policy/sample_states.h"

namespace foreload {

struct PolicySettings {
  uint32_t rank = 0;
  uint64_t window_bytes = uint64_t{256} << 20;  // of open batches and of samples on their way
                                                // to a disk; one batch is open whatever its size
  uint64_t window_samples = 65'536;  // of open batches: where samples are tiny, their number costs
  uint64_t ahead_bytes = uint64_t{32} << 20;  // in flight beyond the window, on their way to a tier
  bool skip_bad_samples = false;
  // Samples are decoded in their places before they are delivered, each into so many bytes.
  bool decode = false;
  uint64_t decoded_bytes = 0;
  // A read from the source is tried this often. One that ran into its deadline counts as all tries
  // but one, so that a source that hangs is given up after two deadlines.
  unsigned tries = 3;
  RunTime read_deadline = std::chrono::seconds(30);
  RunTime first_back_off = std::chrono::milliseconds(100);  // doubles with every try
  // A copy in a tier that is not there after so long is a miss; a tier of which so many reads in a
  // row were not is given up.
  RunTime tier_deadline = std::chrono::seconds(10);
  unsigned tier_patience = 8;
  // A read is hedged when it takes this many times what reads on its path usually take, and at
  // least so long, as far as hedged bytes stay below a share of all that were read.
  double hedge_factor = 6;
  RunTime hedge_after = std::chrono::milliseconds(50);
  double hedge_share = 0.005;
  Limiter::Settings source_limiter;
  std::vector<Limiter::Settings> tier_limiters;  // by tier; defaults where missing
  bool endless = false;                          // go on after the plan's epochs
  // Ranks talk to each other; otherwise every one is alone with the source.
  bool peers = false;
  // Who is silent for so long while something is owed is dead. A sign of life is asked for before.
  RunTime peer_timeout = std::chrono::seconds(10);
  // An owner lets peers wait at most so long for a sample that its first reader should push.
  RunTime push_patience = std::chrono::seconds(30);
  // The window bounds what is asked for, and the peer what it sends: to begin with less only leaves
  // links idle.
  Limiter::Settings peer_limiter{1, 64, 64};
  uint64_t push_bytes = uint64_t{16} << 20;   // on their way to all peers together, about
  uint64_t serve_bytes = uint64_t{32} << 20;  // being sent to peers that asked, about
  // Ranks on this host whose memory can be read in place.
  std::vector<uint32_t> neighbours;
  // Somebody gives this rank's reading lists, epoch by epoch: nothing is asked for.
  bool given_lists = false;
};

// What the policy knows about itself, for statistics.
struct PolicyTotals {
  uint64_t retries = 0;
  uint64_t skipped = 0;
  uint64_t merged = 0;  // reads saved because the sample was on its way already
  uint64_t hedged = 0;  // samples read a second time because the first took too long
  uint64_t hedged_bytes = 0;
  uint64_t late_tier_reads = 0;     // given up
  uint64_t read_ahead = 0;          // samples read into a tier before their batch was open
  uint64_t window_bytes = 0;        // now
  uint64_t waiting_for_source = 0;  // places, now
  uint64_t decoding = 0;            // places, now
  uint64_t served = 0;              // samples sent to peers that asked
  uint64_t refused = 0;             // that were not here
  uint64_t pushed = 0;              // samples given to their owners
  uint64_t push_failed = 0;         // refused, or the owner died
  uint64_t adopted = 0;             // samples of dead ranks kept here
  uint64_t replicas = 0;            // second copies that were kept
  uint64_t gave_way = 0;            // of those, to adopted samples
  uint64_t dead_peers = 0;
};

// The tier on which the plan wants a rank to keep a second copy of a sample, or kNoTier.
uint32_t replica_tier(const Plan& plan, uint32_t rank, uint64_t sample);

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
  // Places that wait for a read from the tier.
  uint64_t waiting_for_tier(uint32_t tier) const { return for_tier_[tier].size(); }
  PolicyTotals totals() const;
  // Who is asked for the sample, as far as this rank knows: its owner, or who adopts what the dead
  // owned; kNoOwner: nobody. REQUIRES: settings.peers.
  uint32_t keeper_of(uint64_t sample) const;

 private:
  // What happens to a sample that no tier has.
  enum class OnItsWay : uint8_t {
    no,
    arriving,  // being read from the source or a peer, or queued for that
    placing,   // arrived, on its way into a tier
    expected,  // this rank keeps it; its first reader will push it
  };
  enum class State : uint8_t { waiting, reading, decoding, ready, bad };
  struct Entry {
    uint64_t sample;
    State state = State::waiting;
    ReadEnd end = ReadEnd::ok;
    unsigned tries = 0;
    RunTime first_try{0};
    RunTime asked = RunTime::max();  // when a peer was first to be asked for it
  };
  struct Batch {
    uint64_t number = 0;
    uint64_t epoch = 0;
    uint64_t bytes = 0;
    uint32_t pending = 0;  // entries neither ready nor bad
    bool delivered = false;
    bool failed = false;
    std::vector<Entry> entries;
  };
  // A read in flight. Its id is its slot and a generation, so that late answers are recognised.
  static constexpr uint32_t kAlone = UINT32_MAX;
  struct Request {
    uint32_t generation = 0;
    bool active = false;
    bool hedge = false;
    Origin from;
    uint64_t sample = 0;
    BatchPlace place;
    RunTime begin{0};
    uint32_t rival = kAlone;  // slot of the other read for the same sample, if it is hedged
  };
  struct Retry {
    RunTime at;
    BatchPlace place;
    friend auto operator<=>(const Retry&, const Retry&) = default;
  };

  struct Peer {
    bool up = true;
    RunTime heard{0};            // 0: never
    RunTime pinged{0};           // the last time
    RunTime doubted{0};          // the first time since it was heard, if it is one of silent_
    uint64_t pushing_bytes = 0;  // sent, not answered
    Fifo<uint64_t> pushes;       // that wait for room, by number
    bool late = false;           // with what it should push: nobody waits for that any more
  };
  // A peer's request, or a peer's push.
  struct Ask {
    uint32_t rank;
    uint64_t number;
    RunTime since{0};
  };
  // A sample that this rank keeps and somebody waits for, until its first reader pushes it.
  struct Expected {
    uint32_t from;
    RunTime since;
  };
  struct OutgoingPush {
    uint32_t rank;
    uint64_t sample;
    RunTime since;
    bool sent = false;
  };
  struct ToServe {
    Ask ask;
    uint64_t sample;
  };
  // What is being sent to a peer that asked.
  struct Sending {
    uint64_t bytes = 0;
    uint32_t samples = 0;
    RunTime since{0};  // the last of it left, or the first was begun
  };

  using Actions = std::vector<Action>;

  void handle(const event::EpochKnown& e, RunTime now, Actions& actions);
  void handle(const event::ReadEnded& e, RunTime now, Actions& actions);
  void handle(const event::Placed& e, RunTime now, Actions& actions);
  void handle(const event::Decoded& e, RunTime now, Actions& actions);
  void handle(const event::Consumed& e, RunTime now, Actions& actions);
  void handle(const event::Timer& e, RunTime now, Actions& actions);
  void handle(const event::TierLost& e, RunTime now, Actions& actions);
  void handle(const event::Seek& e, RunTime now, Actions& actions);
  void handle(const event::PeerDown& e, RunTime now, Actions& actions);
  void handle(const event::PeerHeard& e, RunTime now, Actions& actions);
  void handle(const event::PeerRequest& e, RunTime now, Actions& actions);
  void handle(const event::PeerCancel& e, RunTime now, Actions& actions);
  void handle(const event::Served& e, RunTime now, Actions& actions);
  void handle(const event::PeerPush& e, RunTime now, Actions& actions);
  void handle(const event::PushAnswered& e, RunTime now, Actions& actions);

  // The reading list as a cursor.
  struct KnownEpoch {
    std::shared_ptr<const EpochOrder> order;
    std::shared_ptr<const std::vector<uint64_t>> batch_ends;  // null: equal batches
  };
  const KnownEpoch* known_epoch(uint64_t epoch, Actions& actions);
  uint64_t start_of(uint64_t epoch) const { return epoch == resumed_epoch_ ? resumed_start_ : 0; }
  Sharding sharding_of(uint64_t epoch, const EpochOrder& order) const;
  // Where the samples of the next batch to open stand in what all ranks read in its epoch.
  Sharding places_in_epoch() const;
  void read_own_list(const EpochOrder& order, const Sharding& sharding, uint64_t first,
                     std::span<uint64_t> out) const;
  uint64_t batches_of(const KnownEpoch& known, const Sharding& sharding) const;
  uint64_t end_of_batch(const KnownEpoch& known, const Sharding& sharding, uint64_t i) const;
  bool past_the_end(uint64_t epoch) const;

  void go_on(RunTime now, Actions& actions);
  void open_batches(Actions& actions);
  bool prepare_next_batch(Actions& actions);
  void open_prepared_batch(Actions& actions);
  void queue(BatchPlace place);
  void start_reads(RunTime now, Actions& actions);
  void read_ahead(RunTime now, Actions& actions);
  uint32_t start(Origin from, uint64_t sample, BatchPlace place, bool waiting, bool hedge,
                 RunTime now, Actions& actions);
  void deliver(Actions& actions);
  void set_timer(RunTime now, Actions& actions);

  void look_after_late_reads(RunTime now, Actions& actions);
  void give_up_tier_read(uint32_t slot, RunTime now, Actions& actions);
  void give_up_peer_read(uint32_t slot, RunTime now, Actions& actions);
  void hedge(uint32_t slot, BatchPlace place, RunTime now, Actions& actions);
  bool may_hedge(uint64_t sample) const;
  RunTime late_after(const Request& request);
  // What becomes of the other read of a hedged sample when one has failed, or has ended well.
  void leave_to_rival(const Request& request);
  void end_rival(const Request& request, RunTime now, Actions& actions);
  void end(uint32_t slot);
  // Ends a read whose answer does not count any more.
  void cancel(uint32_t slot, RunTime now, Actions& actions);
  uint64_t id_of(uint32_t slot) const { return uint64_t{requests_[slot].generation} << 32 | slot; }
  // The place of a read that is over waits for another read of the sample, which has none.
  void wait_at(const Request& request);

  void arrived(const Request& request, uint64_t id, Actions& actions);
  void filled(BatchPlace place, Actions& actions);
  void place(const Request& request, uint64_t id, uint32_t tier, Actions& actions);
  void not_arrived(const Request& request, ReadEnd end, RunTime now, Actions& actions);
  void lose_copy(const Request& request, ReadEnd end, Actions& actions);
  void forget_copy(uint64_t sample, uint32_t tier);
  void give_up(BatchPlace place, RunTime now, Actions& actions);
  void mark_bad(BatchPlace place, ReadEnd end, unsigned tries, RunTime since, Actions& actions);
  void wake_waiters(uint64_t sample, Actions& actions);
  void keep_here(const Request& request, uint64_t id, uint32_t tier, Actions& actions);
  void settle(Batch& batch, Entry& entry, State state);

  Batch* batch_of(uint64_t number);
  Entry* entry_of(BatchPlace place);
  bool keeps(uint64_t sample, uint32_t& tier) const;
  bool with_peers() const { return !peers_.empty(); }
  Limiter& limiter_of(Origin from);
  Pace& pace_of(Origin from);

  // Peers. kNoOwner stands for nobody.
  void begin_peers();
  void forget_peers_work(Actions& actions);
  uint32_t heir_of(uint64_t sample) const;       // of the living, the same for all who know of the
                                                 // same deaths
  uint32_t first_reader(uint64_t sample) const;  // in this run
  // The neighbour whose memory should have it.
  Origin neighbour_with(uint64_t sample) const;
  void ask_keeper(BatchPlace place, Actions& actions);
  void ask(uint32_t keeper, BatchPlace place);

  // Guests: samples that this rank keeps and does not own.
  bool is_owner(uint64_t sample) const;
  bool is_replica(uint64_t sample) const;  // a guest that nobody but this rank counts on
  bool may_replicate(const Request& request, uint32_t& tier) const;
  uint32_t adopting_tier(uint64_t sample) const;
  void adopt(uint64_t sample, uint32_t tier, Actions& actions);
  void find_replica(const Held& copy);
  void take_over_replica(uint64_t sample, uint32_t tier);
  void take_over_replicas();
  void let_replicas_give_way(uint32_t tier, uint64_t bytes, Actions& actions);
  void guest_placed(uint64_t sample, uint32_t tier, bool ok, bool is_new, Actions& actions);
  bool was_read(uint64_t sample) const;
  // Marks what is read in an epoch, or what its last batches leave out.
  void mark_seen(const KnownEpoch& known, const Sharding& sharding);
  void mark_cut_off(const KnownEpoch& known, const Sharding& sharding);
  void mark(const EpochOrder& order, uint64_t first, uint64_t end, std::vector<bool>& marks) const;
  uint64_t end_of_reads(const KnownEpoch& known, const Sharding& sharding) const;
  bool may_expect(uint64_t sample) const;
  void expect(uint64_t sample);
  void end_expecting(uint64_t sample, Actions& actions);
  void answer_parked(uint64_t sample, Actions& actions);
  void answer_pushes(uint64_t sample, bool kept, Actions& actions);
  void drop_asks_of(uint32_t rank);
  void refuse(const Ask& ask, Actions& actions);
  void serve(const ToServe& wanted, Actions& actions);
  bool may_send(const ToServe& wanted) const;
  void send(const ToServe& wanted, Actions& actions);
  void push(const Request& request, uint64_t id, Actions& actions);
  void send_pushes(uint32_t rank, Actions& actions);
  void end_push(std::map<uint64_t, OutgoingPush>::iterator push, bool kept, Actions& actions);
  bool peers_owe_something() const;
  void heard_from(uint32_t rank);
  bool is_silent(uint32_t rank, RunTime for_so_long) const;  // though asked for a sign of life
  void ping(uint32_t rank, Actions& actions);
  void ping_all(Actions& actions);
  void give_up_waiting(Actions& actions);
  void look_after_peers(Actions& actions);
  void lose_peer(uint32_t rank, bool in_order, Actions& actions);

  std::shared_ptr<const Plan> plan_;
  PolicySettings settings_;
  Limiter source_;
  std::vector<Limiter> tiers_;
  Pace source_pace_;
  std::vector<Pace> tier_paces_;
  std::vector<Limiter> peer_limiters_;  // by rank; empty without peers
  Pace peer_pace_;
  Limiter neighbour_limiter_;
  Pace neighbour_pace_;
  std::vector<bool> tier_alive_;
  std::vector<unsigned> late_in_a_row_;  // by tier
  SparseStates<OnItsWay> on_its_way_;
  TierCopies copies_;

  std::map<uint64_t, KnownEpoch> known_;  // this epoch and the next
  uint64_t computing_ = kNoBatch;         // epoch asked for, not known yet
  // The next batch to open, and the samples of its epoch consumed before the run.
  uint64_t next_epoch_ = 0;
  uint64_t next_batch_in_epoch_ = 0;
  uint64_t next_position_ = 0;  // of its first sample in the rank's list of the epoch
  uint64_t resumed_epoch_ = 0;
  uint64_t resumed_start_ = 0;
  uint64_t next_number_ = 0;

  // The next batch, computed but not open yet for lack of room.
  struct Prepared {
    Sharding sharding;
    std::vector<uint64_t> samples;
    uint64_t bytes = 0;
    bool last_of_epoch = false;
  };
  std::optional<Prepared> prepared_;

  std::deque<Batch> batches_;  // open ones, numbers ascending without gaps
  uint64_t next_delivery_ = 0;
  uint64_t open_bytes_ = 0;
  uint64_t open_samples_ = 0;
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
  uint64_t pushing_bytes_ = 0;    // to owners, until they have answered

  // Peers; all empty without.
  std::vector<Peer> peers_;                 // by rank
  std::vector<Fifo<BatchPlace>> for_peer_;  // by rank
  std::set<uint32_t> peers_wanted_;         // those of which for_peer_ is not empty
  std::deque<BatchPlace> for_neighbours_;
  std::vector<bool> is_neighbour_;         // by rank; empty without neighbours
  bool neighbours_have_replicas_ = false;  // in memory, by the plan
  std::vector<uint8_t> room_;              // by rank: shares of what the dead owned
  std::vector<bool> came_;                 // by sample: it was here, or was read here, at some time
  std::vector<bool> cut_off_;    // by sample: in the first epoch it is in a batch that is left out
  std::vector<bool> seen_;       // by sample: somebody has read it in this run, or had it before;
                                 // empty: all were
  SparseStates<bool> unkept_;    // its keeper refused to keep it
  std::vector<uint64_t> spare_;  // by tier: bytes for guests
  std::vector<uint64_t> replica_bytes_;           // by tier: of replicas that can give way
  std::vector<uint64_t> next_victim_;             // by tier: sample at which to look for one
  std::vector<Held> no_room_for_;                 // replicas found at the start
  std::map<uint64_t, uint32_t> adopted_;          // sample -> tier
  std::map<uint64_t, uint32_t> arriving_guests_;  // sample -> how often it is being placed
  bool unsure_ = false;  // after a seek, or with lists of samplers: nobody knows what was read
  std::map<uint64_t, Expected> expected_;           // by sample
  std::map<uint64_t, std::vector<Ask>> parked_;     // requests, by sample that is on its way here
  std::map<uint64_t, std::vector<Ask>> pushed_in_;  // pushes, by sample that is being placed
  std::map<uint64_t, OutgoingPush> pushes_;         // by number
  uint64_t next_push_ = kNoPush + 1;
  std::deque<ToServe> to_serve_;
  std::map<uint32_t, Sending> sending_;  // by rank
  std::set<uint32_t> silent_;            // asked for a sign of life, and not heard since
  uint64_t serving_bytes_ = 0;

  std::vector<Request> requests_;
  std::vector<uint32_t> free_requests_;
  std::optional<RunTime> next_look_;  // after late reads
  std::optional<RunTime> timer_;      // set, not rung yet
  RunTime now_{0};                    // of the event being handled
  uint64_t source_bytes_ = 0;         // read so far
  PolicyTotals totals_;
};

}  // namespace foreload
