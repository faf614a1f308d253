// SPDX-License-Identifier: Apache-2.0
//
// One rank with foreload's own policy, the production object, and modelled devices: what
// fetch/engine.cc is for real ones. Actions become transfers on the cluster's devices, their ends
// become events; messages to other ranks take the network. Whatever can go wrong comes from a
// World, so that tests can let it: those of the policy run on this driver, too.
//
// For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "foreload/policy/driver.h"
#include "foreload/policy/policy.h"
#include "foreload/sim/cluster.h"
#include "foreload/sim/outcome.h"

namespace foreload::sim {

// How a read will end.
struct Fate {
  ReadEnd end = ReadEnd::ok;
  double delay = 0;    // seconds before it begins
  bool hangs = false;  // it never ends; a source gives up at the deadline
  bool held = false;   // until PolicyRank::end()
};

// What becomes of a message between ranks. Its checksum says whether bytes were damaged on the way.
enum class Arrival : uint8_t { whole, damaged, never };

// Stands for "no sample", in a message that is about none.
inline constexpr uint64_t kNoSample = UINT64_MAX;

// What happens around a policy. This one lets everything succeed.
class World {
 public:
  virtual ~World() = default;
  virtual Fate fate(uint32_t /*rank*/, const action::Read&) { return {}; }
  virtual bool takes(uint32_t /*rank*/, uint64_t /*sample*/, uint32_t /*tier*/) { return true; }
  // Whether a copy can be read for a peer that asked for it.
  virtual bool serves(uint32_t /*rank*/, uint64_t /*sample*/, uint32_t /*tier*/) { return true; }
  virtual Fate makes(uint32_t /*rank*/, const action::Make&) { return {}; }
  virtual bool decodes(uint32_t /*rank*/, const action::Decode&) { return true; }
  virtual Arrival arrival(uint32_t /*from*/, uint32_t /*to*/, uint64_t /*sample*/) {
    return Arrival::whole;
  }
  // Seconds before a message is sent. Messages from one rank to another stay in order only if later
  // ones are held up as long.
  virtual double delay(uint32_t /*from*/, uint32_t /*to*/) { return 0; }
  // What the policy is about to be told, and what it wants done, which a test may spoil.
  virtual void heard(uint32_t /*rank*/, const Event&) {}
  virtual void pass_on(uint32_t /*rank*/, std::vector<Action>&) {}
  // Bytes of which samples a delivered batch has.
  virtual void delivered(uint32_t /*rank*/, const action::OpenBatch&,
                         const std::vector<uint64_t>& /*samples*/) {}
  // The same of a fetch; kNoSample: it could not be had.
  virtual void fetched(uint32_t /*rank*/, const action::OpenBatch&,
                       const std::vector<uint64_t>& /*samples*/) {}
  // The rank's loop can have another batch.
  virtual void ready(uint32_t /*rank*/) {}
  virtual void failed(uint32_t /*rank*/, const action::Fail&) {}
  virtual void skipped(uint32_t /*rank*/, const action::Skip&) {}
};

// Orders that all ranks of a simulation share.
class SharedOrders {
 public:
  explicit SharedOrders(const Order& order) : order_(order) {}
  std::shared_ptr<const EpochOrder> epoch(uint64_t epoch);

 private:
  const Order& order_;
  std::map<uint64_t, std::shared_ptr<const EpochOrder>> orders_;  // the last few
};

struct PolicyRankSettings {
  std::shared_ptr<const Plan> plan;
  PolicySettings policy;
  std::shared_ptr<SharedOrders> orders;
  std::vector<Held> held;
  unsigned decode_threads = 1;
};

class PolicyRank : private Driver {
 public:
  // REQUIRES: cluster and world outlive it.
  PolicyRank(PolicyRankSettings settings, Cluster& cluster, World& world);

  // A batch that the loop can have.
  struct Ready {
    uint64_t number = 0;
    uint64_t bytes = 0;
    uint64_t samples = 0;
  };

  // The ranks it may talk to, itself included, by number. REQUIRES: they outlive it.
  void know(std::span<const std::unique_ptr<PolicyRank>> ranks) { ranks_ = ranks; }
  void begin();
  // From now on the rank does nothing and answers nobody.
  void die() { dead_ = true; }
  bool dead() const { return dead_; }
  // Does nothing until wake(); then it hears what it missed.
  void stop() { stopped_ = true; }
  void wake();
  bool stopped() const { return stopped_; }
  // A transfer with a token of this rank has ended.
  void ended(uint64_t token);
  // Its slot of the agenda was woken.
  uint32_t timer_slot() const { return timer_; }
  void ring();
  static uint32_t rank_of(uint64_t token) { return static_cast<uint32_t>(token >> 32); }

  // Something happens that no device does.
  void tell(const Event& event);
  // A peer answers a read, or somebody ends one that is held, or what is being made of one.
  void end(uint64_t request, ReadEnd end);
  // A copy is gone, and the policy does not know.
  void drop(uint32_t tier, uint64_t sample);

  std::deque<Ready>& ready() { return ready_; }
  void consumed(uint64_t batch);
  void seek(uint64_t epoch, uint64_t start);
  void lose_tier(uint32_t tier);

  // Bytes that a tier holds now.
  uint64_t held_bytes(uint32_t tier) const { return tiers_[tier].bytes; }
  bool holds(uint32_t tier, uint64_t sample) const { return tiers_[tier].held[sample]; }
  uint64_t source_bytes() const { return source_bytes_; }
  const Hits& hits() const { return hits_; }
  const Policy& policy() const { return policy_; }

 private:
  enum class Work : uint8_t {
    read,
    delayed_read,
    place,
    make,
    decode,
    compute_epoch,
    // To a peer: a question, its end, an answer without and with bytes, a push, its answer, and
    // asking for a sign of life and giving one.
    ask,
    stop_asking,
    refuse,
    serve,
    push,
    answer_push,
    ping,
    pong,
  };
  // Something on its way; tokens carry its number. There are millions: the order of members leaves
  // no gaps.
  struct Operation {
    Work work = Work::read;
    bool cancelled = false;
    ReadEnd end = ReadEnd::ok;
    uint32_t peer = 0;
    uint64_t request = 0;
    uint64_t sample = kNoSample;  // or the epoch
    BatchPlace place;
    Origin where;       // it is read, or placed
    Time deadline = 0;  // of a read from the source
  };
  // A request under way. Requests' numbers are slots of the policy with a generation above.
  struct Pending {
    uint64_t request = UINT64_MAX;
    uint32_t operation = 0;
  };
  struct OpenBatch {
    action::OpenBatch opened;
    std::vector<uint64_t> filled;  // samples whose bytes are there
    std::vector<Origin> from;
    bool fresh = false;  // in memory that no batch was in before
  };
  struct TierContent {
    std::vector<bool> held;  // by sample
    uint64_t bytes = 0;
    bool alive = true;
  };

  RunTime now() const;
  void carry_out_all();
  void look_over(std::vector<Action>& actions) override {
    world_.pass_on(settings_.policy.rank, actions);
  }
  void carry(action::ComputeEpoch& a) override;
  void carry(action::OpenBatch& a) override;
  void carry(action::Read& a) override;
  void carry(action::Cancel& a) override;
  void carry(action::Make& a) override;
  void carry(action::Decode& a) override;
  void carry(action::Place& a) override;
  void carry(action::Evict& a) override;
  void carry(action::Copy& a) override { copy(a.from, a.to); }
  void carry(action::Substitute& a) override { copy(a.from, a.to); }
  void carry(action::LoseTier& a) override { lose_tier(a.tier); }
  void carry(action::Deliver& a) override;
  void carry(action::Fail& a) override { world_.failed(settings_.policy.rank, a); }
  void carry(action::Skip& a) override { world_.skipped(settings_.policy.rank, a); }
  void carry(action::SetTimer& a) override;
  void carry(action::CloseBatch& a) override { open_.erase(a.batch); }
  void carry(action::Serve& a) override;
  void carry(action::Refuse& a) override;
  void carry(action::HoldPush&) override {}
  void carry(action::SendPush& a) override;
  void carry(action::TellUnread& a) override;
  void carry(action::EndPush&) override {}
  void carry(action::PlacePushed& a) override { place(a.sample, a.tier); }
  void carry(action::AnswerPush& a) override;
  void carry(action::Ping& a) override { send({.work = Work::ping, .peer = a.rank}, 0); }
  void carry(action::DropPeer& a) override;

  Pending* pending(uint64_t request);
  void expect(uint64_t request, uint64_t token);
  void send(const Operation& message, uint64_t bytes);
  void arrive(const Operation& message);
  void receive(uint32_t from, const Operation& message, bool intact);
  void place(uint64_t sample, uint32_t tier);
  void decode_more();
  void fill(const Operation& operation, const Origin& from);
  void end_make(const Operation& operation);
  // Made forms are finished without work worth counting.
  uint64_t decoding_bytes(const Operation& operation) const;
  uint64_t source_bytes_of(uint64_t sample) const;
  void copy(BatchPlace from, BatchPlace to);
  uint64_t keep(const Operation& operation);
  void start_read(uint64_t token);
  void end_read(const Operation& operation);
  void end_place(const Operation& operation);
  void end_serve(const Operation& operation);
  void go_on_sending();
  const PolicyRank* neighbour_with(uint64_t sample, uint32_t number) const;

  PolicyRankSettings settings_;
  Cluster& cluster_;
  World& world_;
  Policy policy_;
  const uint32_t timer_;
  std::vector<Action> actions_;
  bool carrying_ = false;
  std::deque<Operation> operations_;
  std::vector<uint32_t> free_;
  std::vector<Pending> requests_;                  // under way, by slot
  std::unordered_map<uint64_t, uint32_t> making_;  // operations, by request: their slots are free
  std::span<const std::unique_ptr<PolicyRank>> ranks_;
  std::vector<bool> dropped_;  // peers that count as dead here
  bool dead_ = false;
  bool stopped_ = false;
  std::vector<std::function<void()>> missed_;  // while it was stopped
  std::vector<Operation> held_up_;             // sent to ranks that are stopped
  std::unordered_map<uint64_t, OpenBatch> open_;
  size_t slots_ = 0;  // batches that there is memory for
  std::vector<TierContent> tiers_;
  std::vector<bool> ahead_;  // samples whose next read from a tier counts as one from the source
  std::set<std::pair<BatchPlace, uint64_t>> to_decode_;  // with their tokens, the next one first
  unsigned decoding_ = 0;
  std::deque<Ready> ready_;
  uint64_t source_bytes_ = 0;
  Hits hits_;
};

}  // namespace foreload::sim
