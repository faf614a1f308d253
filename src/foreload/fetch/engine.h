// SPDX-License-Identifier: Apache-2.0
//
// Carries out what the policy decides, with real devices: one loop thread owns the policy, gives
// reads to the source and the tiers, keeps the memory of open batches, and hands finished batches
// to one consumer, in order.
//
// fetch() is random access beside them: any samples, at once, over the same paths.
//
// next(), release() and seek() are for one consumer thread; fetch() and stats() for any.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/dataset/index.h"
#include "foreload/decode/form.h"
#include "foreload/decode/sample_transform.h"
#include "foreload/fetch/batch.h"
#include "foreload/fetch/decoded_batch.h"
#include "foreload/fetch/hands.h"
#include "foreload/fetch/inbox.h"
#include "foreload/fetch/peer_link.h"
#include "foreload/fetch/ticket.h"
#include "foreload/metrics/stage.h"
#include "foreload/metrics/trace.h"
#include "foreload/plan/plan.h"
#include "foreload/policy/driver.h"
#include "foreload/policy/policy.h"
#include "foreload/policy/sample_states.h"
#include "foreload/staging/staging.h"
#include "foreload/stores/source.h"
#include "foreload/tiers/memory_view.h"
#include "foreload/tiers/tier.h"

namespace foreload {

struct EngineParts {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const DatasetIndex> index;
  std::shared_ptr<Inbox> inbox;
  std::unique_ptr<Source> source;            // its answers go to the inbox
  std::vector<std::shared_ptr<Tier>> tiers;  // by number in the plan
  bool lent_to_others = false;               // who may put what this engine needs
  std::vector<Tier::Wanted> keep;            // of what each tier found; none: everything
  std::shared_ptr<Staging> staging;
  std::shared_ptr<Staging> decoded;  // memory of decoded batches; null: `staging`
  SampleTransform transform;         // none: samples are delivered as bytes
  uint64_t transform_seed = 0;
  // In which samples are kept, and whose sizes the plan has; null: files as the source has them. If
  // it is made, policy.made_from has the files' sizes.
  std::shared_ptr<const Form> form;
  std::vector<Held> held;
  PolicySettings policy;            // `decode` and `decoded_bytes` follow from the transform
  std::shared_ptr<PeerLink> peers;  // null: this rank is alone
  // Memory tiers of other ranks on this host, by rank, null where there is none; may be empty.
  std::vector<std::shared_ptr<const MemoryView>> neighbours;
  // Threads that copy and decode, for tiers too that have none; null: one.
  std::unique_ptr<Hands> hands;
  std::shared_ptr<Trace> trace;  // may be null
};

// One stage of a sample's way, by name: "source", "memory", "disk", "hands".
struct StageStats {
  std::string name;
  unsigned limit = 0;  // of what may be in flight, now; 0: none
  double rate = 0;     // bytes per second, measured last; 0: unknown
  StageTotals totals;
};

// What passed between this rank and another one.
struct PeerStats {
  bool same_host = false;  // its memory can be read in place
  bool lost = false;       // dead, or it has left
  uint64_t same_host_samples = 0;
  uint64_t same_host_bytes = 0;
  uint64_t samples = 0;  // asked for and got
  uint64_t bytes = 0;
  uint64_t served_samples = 0;  // it asked for and was sent
  uint64_t served_bytes = 0;
  double wait_seconds = 0;  // of all requests to it, from question to answer
  double longest_wait = 0;  // seconds
  uint64_t missing = 0;     // it did not have what it was asked for
  uint64_t corrupt = 0;     // copies that were not what they should be
  uint64_t given_up = 0;    // requests that were answered too late or never

  bool any() const;  // something to tell
};

// Decoding of samples whose files have a size in [2^(class - 1), 2^class) bytes.
struct DecodedSizes {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  double seconds = 0;  // of all threads together
};
inline constexpr size_t kSizeClasses = 40;  // larger ones count as the last

struct EngineStats {
  PolicyTotals policy;
  StagingTotals staging;
  std::vector<StageStats> stages;
  StageTotals disks;           // all together; reads, writes and what peers asked for
  StageTotals peer_requests;   // to all ranks together
  uint64_t ready_batches = 0;  // waiting for the loop, now
  uint64_t abandoned_reads = 0;
  uint64_t source_bytes = 0;  // all that was read, also what nobody took in the end
  uint64_t source_samples = 0;
  uint64_t disk_bytes = 0;      // read from disk caches for batches
  uint64_t corrupt_copies = 0;  // in tiers; each became a miss
  uint64_t source_errors = 0;
  uint64_t decoded_samples = 0;
  double decode_seconds = 0;  // of all threads together
  std::array<DecodedSizes, kSizeClasses> decoded_sizes{};
  std::vector<uint64_t> kept_bytes;  // of samples, by tier, now
  uint64_t tier_overhead = 0;        // bytes of memory that finding them costs
  uint64_t fetched_samples = 0;      // by fetch(), delivered
  uint64_t fetched_bytes = 0;
  uint64_t others_samples = 0;  // read from copies that other loaders of the cache have put
  uint64_t others_bytes = 0;
  uint64_t skipped_samples = 0;         // of batches that next() gave
  std::vector<std::string> skipped;     // names of the first hundred
  std::vector<std::string> lost_tiers;  // and why
  std::vector<uint32_t> dead_peers;     // those that have left included
  std::vector<uint32_t> left_peers;     // in good order, when their loop was done
  std::vector<PeerStats> peers;         // by rank; empty without peers
};

class Engine : private Driver {
 public:
  explicit Engine(EngineParts parts);
  // Ends within two seconds whatever is in flight.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The next batch, as soon as it is there. Fails with the error of a sample of that batch (and
  // goes on failing until seek()), which is `corrupt` for a named part that is bad, or with
  // `cancelled` when `until` passes first. REQUIRES: there is a next batch.
  Result<Batch> next(std::optional<SteadyTime> until = std::nullopt);
  // The consumer is done with the batch that next() gave last (its memory may live on).
  void release();
  // The next batch is the first one after `start` samples of `epoch`; see event::Seek.
  void seek(uint64_t epoch, uint64_t start);
  // The plan's order has grown by an epoch; see event::EpochKnown.
  void learn(uint64_t epoch, std::shared_ptr<const EpochOrder> order);

  // These samples, in this order, as soon as all are there or known not to come. `as_bytes`: even
  // if batches are decoded; otherwise random steps draw as in the first epoch, each sample in the
  // place of its number. REQUIRES: samples that there are, and files are kept if `as_bytes`.
  std::shared_ptr<Ticket> fetch(std::vector<uint64_t> samples, bool as_bytes = false);

  EngineStats stats() const;

 private:
  struct OpenBatch {
    uint64_t epoch = 0;
    uint64_t first = 0;
    Sharding sharding;
    bool last_of_epoch = false;
    std::vector<uint64_t> samples;
    std::vector<uint64_t> skipped;
    std::shared_ptr<Slot> slot;
    std::vector<std::span<std::byte>> ranges;  // by place; in the slot, or in one of `spilled`
    std::vector<From> from;
    std::vector<bool> tainted;  // an abandoned read may still write there
    std::vector<std::shared_ptr<Slot>> spilled;
    std::shared_ptr<DecodedBatch> decoded;      // null: it is delivered as bytes, or has failed
    std::map<uint32_t, std::string> undecoded;  // why, by place
    bool as_bytes = false;
    std::map<uint32_t, Error> errors;  // of a fetch

    // What keeps the memory of a place.
    std::shared_ptr<const void> keeper_of(uint32_t index) const;
  };
  // A read in flight.
  struct Pending {
    uint64_t sample = 0;
    BatchPlace place;
    Origin origin;
    From from = From::source;
    uint64_t first_part = 0;  // id of its first part's read from the source; the others follow
    uint32_t parts = 0;
    uint32_t parts_left = 0;
    Fault fault = Fault::none;
    std::shared_ptr<Slot> memory;  // of a read without a batch, a hedge, or what is yet to be made
    SteadyTime begin;
  };
  // What a hand makes into the form in which samples are kept.
  struct MakingJob {
    BatchPlace place;
    std::shared_ptr<Slot> memory;  // for what has no batch
  };

  void loop();
  // What disks are being given when the engine ends is worth half a second: the next run finds it.
  void finish_placing();
  RunTime now() const;
  void tell(const Event& event);
  void carry_out_all();

  void carry(action::ComputeEpoch& a) override;
  void carry(action::OpenBatch& a) override;
  void carry(action::Read& a) override;
  void carry(action::Cancel& a) override;
  void carry(action::Make& a) override;
  void carry(action::Decode& a) override;
  void carry(action::Place& a) override;
  void carry(action::Evict& a) override;
  void carry(action::Copy& a) override;
  void carry(action::Substitute& a) override;
  void carry(action::LoseTier& a) override;
  void carry(action::Deliver& a) override;
  void carry(action::Fail& a) override;
  void carry(action::Skip& a) override;
  void carry(action::SetTimer& a) override;
  void carry(action::CloseBatch& a) override;
  void carry(action::Serve& a) override;
  void carry(action::Refuse& a) override { parts_.peers->refuse(a.rank, a.request); }
  void carry(action::HoldPush& a) override;
  void carry(action::SendPush& a) override;
  void carry(action::EndPush& a) override { pushes_.erase(a.push); }
  void carry(action::TellUnread& a) override;
  void carry(action::PlacePushed& a) override;
  void carry(action::AnswerPush& a) override;
  void carry(action::Ping& a) override { parts_.peers->ping(a.rank); }
  void carry(action::DropPeer& a) override;

  void handle(SourceAnswer& answer);
  void handle(message::TierAnswered& answered);
  void handle(message::NeighbourRead& read);
  void handle(message::Made& made);
  void handle(message::Decoded& decoded);
  void handle(message::PeerMessage& message);
  void handle(message::PeerSent& sent);
  void handle(Event& event);
  void handle(message::Stop&) { stopping_ = true; }

  // What a tier was asked for. The id that its answer carries says both what it was and the number
  // of the request, the sample, or the serving: nothing needs to be looked up.
  enum class TierJob : uint8_t { read, place, serve };
  static constexpr uint64_t id_of(TierJob job, uint64_t number) {
    return number << 2 | static_cast<uint64_t>(job);
  }
  static constexpr TierJob job_of(uint64_t id) { return static_cast<TierJob>(id & 3); }
  static constexpr uint64_t number_of(uint64_t id) { return id >> 2; }
  // A sample that a tier reads for a peer.
  struct Serving {
    uint32_t rank;
    uint64_t request;
    uint64_t sample;
    uint32_t tier;
    std::shared_ptr<Slot> memory;
  };
  using PushKey = std::pair<uint32_t, uint64_t>;  // rank and number of a push to this rank

  CopyKey key_of(uint64_t sample) const;
  uint64_t begin_tier_job(uint32_t tier, TierJob job, uint64_t number);
  void count_ended(uint32_t tier, uint64_t id);
  void end_tier_job(uint32_t tier, const TierAnswer& answer);
  void end_serving(uint64_t number, const TierAnswer& answer);
  void place(uint32_t tier, uint64_t sample, std::span<const std::byte> bytes,
             std::shared_ptr<const void> keeper, Traffic traffic);
  void read_neighbour(const action::Read& a, std::span<std::byte> into,
                      std::shared_ptr<const void> keeper);
  // The tier where somebody else has put the sample; nothing if the source is to be read.
  std::optional<uint32_t> put_by_others(uint64_t sample);
  void read_source(const action::Read& a, Pending& pending, std::byte* into,
                   std::shared_ptr<const void> keeper);
  void end_read(uint64_t request, ReadEnd end);
  void count_others(const Pending& pending);
  void count_peer_read(const Pending& pending, ReadEnd end);
  void count_decoded(uint64_t sample, std::chrono::nanoseconds took);
  const char* track_of(Origin origin) const;
  // An abandoned read, or a making, may go on writing there.
  void taint(BatchPlace place);
  // What a read brings is made into the form in which samples are kept before anybody has it.
  bool is_made(Origin from) const {
    return from.kind == Origin::Kind::source && parts_.form != nullptr;
  }
  // Fresh memory for a place, because its own is too small or still written to.
  bool spill(OpenBatch& batch, uint32_t index, uint64_t size);
  void open_decoded(uint64_t number, OpenBatch& batch);
  Batch finish(OpenBatch open) const;
  // A batch cannot be delivered; of a fetch, a place.
  void fail_place(BatchPlace place, Error error);
  void answer_fetch(uint64_t number, OpenBatch open);
  void flush_reads();
  bool lose_tier(uint32_t tier, const std::string& why);
  std::string name_of_sample(uint64_t sample) const;
  void publish(uint64_t batch, Result<Batch> result);
  void publish_failure();
  void update_stats();
  void set_stages();

  EngineParts parts_;
  Policy policy_;
  const SteadyTime start_;
  std::vector<Action> actions_;
  bool stopping_ = false;
  std::optional<SteadyTime> timer_;

  // Owned by the loop thread.
  std::unordered_map<uint64_t, OpenBatch> open_;
  std::map<uint64_t, Error> failures_;  // by batch; told to the consumer when its turn comes
  std::optional<uint64_t> next_to_publish_;
  std::unordered_map<uint64_t, Pending> pending_;        // by request
  std::unordered_map<uint64_t, uint64_t> source_reads_;  // id of a part's read -> request
  uint64_t next_source_read_ = 0;
  // A tier as this engine uses it.
  struct Lent {
    Tier::Borrower borrower;
    From from;               // what statistics call it
    std::vector<Get> reads;  // of this round
    std::vector<Get> serves;
    bool lost = false;
  };
  std::vector<Lent> lent_;                         // by tier
  uint64_t placing_ = 0;                           // samples that tiers are given
  uint64_t disk_jobs_ = 0;                         // that disks are asked for
  std::unordered_map<uint64_t, Serving> serving_;  // by number
  uint64_t next_serving_ = 1;
  std::unordered_map<uint64_t, PeerLink::Payload> pushes_;  // to peers
  std::map<PushKey, std::pair<std::span<const std::byte>, std::shared_ptr<const void>>>
      pushed_;                                      // by peers, until they are answered
  std::unordered_map<uint64_t, MakingJob> making_;  // by request
  // Bytes that arrived in this round and lie in no batch, until they are made or placed.
  std::unordered_map<uint64_t, std::shared_ptr<Slot>> arrived_;
  SampleBits ahead_;                     // samples whose next tier read counts as source
  std::unordered_set<uint64_t> others_;  // samples whose copies others have put
  std::unordered_map<uint64_t, std::string> last_error_;  // of samples being retried
  std::unordered_map<uint64_t, std::string> unmade_;      // why, by sample
  struct NeighbourJob {
    std::vector<std::pair<uint32_t, std::shared_ptr<const MemoryView>>> neighbours;  // in turn
    uint64_t request;
    CopyKey key;
    std::span<std::byte> into;
    std::shared_ptr<const void> keeper;
  };
  std::vector<NeighbourJob> neighbour_reads_;  // of this round
  std::vector<StageLoad> loads_;               // source, tiers, hands
  StageLoad disks_load_;
  StageLoad peers_load_;
  uint64_t asked_ = 0;  // of peers, not answered yet

  // Between the loop and the consumer.
  mutable std::mutex mutex_;
  std::condition_variable delivered_;
  struct Ready {
    uint64_t number;
    Result<Batch> batch;
  };
  std::deque<Ready> ready_;
  uint64_t seeks_ = 0;                                 // asked for
  uint64_t seeks_done_ = 0;                            // carried out by the loop
  EngineStats stats_;                                  // updated by the loop after every round
  std::map<uint64_t, std::weak_ptr<Ticket>> tickets_;  // of fetches, until they are answered
  uint64_t next_fetch_ = kFetches;

  std::optional<uint64_t> taken_;  // the consumer's: the batch next() gave last

  std::unique_ptr<Hands> computing_;  // one thread for orders, so that copies do not wait for them
  std::thread thread_;
};

}  // namespace foreload
