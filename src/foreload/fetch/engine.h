// SPDX-License-Identifier: Apache-2.0
//
// Carries out what the policy decides, with real devices: one loop thread owns the policy, gives
// reads to the source and the tiers, keeps the memory of open batches, and hands finished batches
// to one consumer, in order.
//
// next(), release() and seek() are for one consumer thread; stats() for any.
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
#include <variant>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/fetch/hands.h"
#include "foreload/fetch/inbox.h"
#include "foreload/metrics/trace.h"
#include "foreload/plan/index.h"
#include "foreload/plan/plan.h"
#include "foreload/policy/policy.h"
#include "foreload/sources/source.h"
#include "foreload/staging/staging.h"
#include "foreload/tiers/disk.h"
#include "foreload/tiers/memory.h"

namespace foreload {

// Where the bytes of a delivered sample came from. A sample that was read ahead into a tier counts
// as coming from the source the first time.
enum class From : uint8_t { memory, disk, peer, source };
inline constexpr size_t kFroms = 4;

// A finished batch. Whoever holds `memory` keeps the bytes.
struct Batch {
  uint64_t epoch = 0;
  uint64_t first = 0;  // position of its first sample in the rank's list of the epoch
  bool last_of_epoch = false;
  std::vector<uint64_t> samples;  // whose bytes these are; a skipped sample shows its substitute
  std::vector<std::span<const std::byte>> bytes;
  std::vector<std::shared_ptr<const void>> memory;
  std::array<uint64_t, kFroms> from_bytes{};
  std::array<uint64_t, kFroms> from_samples{};
};

// What a tier of the plan is made of: exactly one of the two.
struct EngineTier {
  std::unique_ptr<MemoryTier> memory;
  std::unique_ptr<DiskTier> disk;  // its answers go to the inbox with the tier's number
};

struct EngineParts {
  std::shared_ptr<const Plan> plan;
  std::shared_ptr<const DatasetIndex> index;
  std::shared_ptr<Inbox> inbox;
  std::unique_ptr<Source> source;  // its answers go to the inbox
  std::vector<EngineTier> tiers;   // by number in the plan
  std::shared_ptr<Staging> staging;
  std::vector<Held> held;
  PolicySettings policy;
  unsigned hands = 1;
  std::shared_ptr<Trace> trace;  // may be null
};

struct EngineStats {
  PolicyTotals policy;
  StagingTotals staging;
  unsigned source_in_flight = 0;
  unsigned source_limit = 0;
  double source_rate = 0;  // bytes per second, measured last
  uint64_t abandoned_reads = 0;
  uint64_t source_bytes = 0;  // all that was read, also what nobody took in the end
  uint64_t source_samples = 0;
  uint64_t corrupt_copies = 0;  // in tiers; each became a miss
  uint64_t source_errors = 0;
  std::vector<std::string> skipped;     // names of the first hundred
  std::vector<std::string> lost_tiers;  // and why
};

class Engine {
 public:
  explicit Engine(EngineParts parts);
  // Ends within two seconds whatever is in flight.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The next batch, as soon as it is there. Fails with the error of a sample of that batch (and
  // goes on failing until seek()), or with `cancelled` when `until` passes first. REQUIRES: there
  // is a next batch.
  Result<Batch> next(std::optional<SteadyTime> until = std::nullopt);
  // The consumer is done with the batch that next() gave last (its memory may live on).
  void release();
  // The next batch is the first one after `start` samples of `epoch`.
  void seek(uint64_t epoch, uint64_t start);

  EngineStats stats() const;

 private:
  // Ids of writes are above those of requests, which a disk's answers carry too.
  static constexpr uint64_t kDiskWrites = uint64_t{1} << 63;

  struct OpenBatch {
    uint64_t epoch = 0;
    uint64_t first = 0;
    bool last_of_epoch = false;
    std::vector<uint64_t> samples;
    std::shared_ptr<Slot> slot;
    std::vector<std::span<std::byte>> ranges;  // by place; in the slot, or in one of `spilled`
    std::vector<From> from;
    std::vector<bool> tainted;  // an abandoned read may still write there
    std::vector<std::shared_ptr<Slot>> spilled;

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
    std::shared_ptr<Slot> memory;  // of a read without a batch
    SteadyTime begin;
  };

  void loop();
  RunTime now() const;
  void tell(const Event& event);
  void carry_out();

  void carry(action::ComputeEpoch& a);
  void carry(action::OpenBatch& a);
  void carry(action::Read& a);
  void carry(action::Cancel& a);
  void carry(action::Place& a);
  void carry(action::Evict& a);
  void carry(action::Copy& a);
  void carry(action::Deliver& a);
  void carry(action::Fail& a);
  void carry(action::Skip& a);
  void carry(action::SetTimer& a);
  void carry(action::CloseBatch& a);

  void handle(SourceAnswer& answer);
  void handle(message::DiskAnswered& answered);
  void handle(message::MemoryRead& read);
  void handle(Event& event);
  void handle(message::Stop&) { stopping_ = true; }

  void read_source(const action::Read& a, Pending& pending, std::byte* into,
                   std::shared_ptr<const void> keeper);
  void end_read(uint64_t request, ReadEnd end);
  // Fresh memory for a place, because its own is too small or still written to.
  bool spill(OpenBatch& batch, uint32_t index, uint64_t size);
  void flush_memory_reads();
  void lose_tier(uint32_t tier, const std::string& why);
  std::string name_of_sample(uint64_t sample) const;
  void publish(uint64_t batch, Result<Batch> result);
  void publish_failure();
  void update_stats();

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
  std::unordered_map<uint64_t, uint64_t> disk_writes_;  // id -> sample
  uint64_t next_disk_write_ = kDiskWrites;
  // Bytes that arrived in this round without a batch, until they are placed.
  std::unordered_map<uint64_t, std::shared_ptr<Slot>> arrived_;
  std::vector<bool> ahead_;  // samples whose next tier read counts as source
  std::unordered_map<uint64_t, std::string> last_error_;  // of samples being retried
  struct MemoryJob {
    MemoryTier* tier;
    uint64_t request;
    uint64_t sample;
    std::span<std::byte> into;
    std::shared_ptr<const void> keeper;
  };
  std::vector<MemoryJob> memory_reads_;  // of this round
  std::vector<bool> tier_lost_;

  // Between the loop and the consumer.
  mutable std::mutex mutex_;
  std::condition_variable delivered_;
  struct Ready {
    uint64_t number;
    Result<Batch> batch;
  };
  std::deque<Ready> ready_;
  uint64_t seeks_ = 0;       // asked for
  uint64_t seeks_done_ = 0;  // carried out by the loop
  EngineStats stats_;        // updated by the loop after every round

  std::optional<uint64_t> taken_;  // the consumer's: the batch next() gave last

  // Ended in this order: hands first, then the loop's devices.
  std::unique_ptr<Hands> hands_;
  std::unique_ptr<Hands> computing_;  // one thread for orders, so that copies do not wait for them
  std::thread thread_;
};

}  // namespace foreload
