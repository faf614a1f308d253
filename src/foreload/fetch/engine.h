// SPDX-License-Identifier: Apache-2.0
//
// Runs the policy against real devices: one loop thread owns it, tells it all that happens, has
// carried out what it decides, and hands finished batches to one consumer, in order.
//
// fetch() is random access beside them: any samples, at once, over the same paths.
//
// next(), release() and seek() are for one consumer thread; fetch() and stats() for any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/fetch/batch.h"
#include "foreload/fetch/engine_driver.h"
#include "foreload/fetch/engine_parts.h"
#include "foreload/fetch/engine_stats.h"
#include "foreload/fetch/inbox.h"
#include "foreload/fetch/loop_parts.h"
#include "foreload/fetch/peer_exchange.h"
#include "foreload/fetch/pending_reads.h"
#include "foreload/fetch/ticket.h"

namespace foreload {

class Engine {
 public:
  explicit Engine(EngineParts parts);
  // Ends within two seconds whatever is in flight.
  ~Engine();
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
  void loop();
  // What disks are being given when the engine ends is worth half a second: the next run finds it.
  void finish_placing();
  void update_counts();
  void handle(message::TierAnswered& answered);
  void handle(Event& event);
  void handle(message::Stop&) { stopping_ = true; }
  void end_tier_job(uint32_t tier, const TierAnswer& answer);
  void count_skipped(const Batch& batch);

  LoopParts parts_;
  PendingReads reads_{parts_};
  PeerExchange peers_{parts_, reads_};
  EngineDriver driver_{parts_, reads_, peers_};
  bool stopping_ = false;  // the loop's
  // The consumer's: the batch next() gave last, and how many names of skipped samples are of which
  // epoch.
  std::optional<uint64_t> taken_;
  uint64_t named_epoch_ = 0;
  size_t names_of_epoch_ = 0;
  std::atomic<uint64_t> next_fetch_{kFetches};
  std::thread thread_;
};

}  // namespace foreload
