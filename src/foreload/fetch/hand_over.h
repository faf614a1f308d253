// SPDX-License-Identifier: Apache-2.0
//
// Where finished batches wait for the consumer, in order, and tickets for what was fetched. A batch
// that failed is the last one, when its turn comes.
//
// take() and drop() are the consumer's; any thread may call expect(); the rest is the loop's.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "foreload/base/result.h"
#include "foreload/fetch/batch.h"
#include "foreload/fetch/engine_counts.h"
#include "foreload/fetch/ticket.h"

namespace foreload {

class HandOver {
 public:
  struct Ready {
    uint64_t number;
    Result<Batch> batch;
  };

  explicit HandOver(EngineCounts& counts) : counts_(counts) {}

  // As Engine::next().
  Ready take(std::optional<SteadyTime> until);
  // Nothing can be taken any more before the loop has begun anew, once for each drop().
  void drop();
  // The fetch will be answered to this ticket.
  void expect(uint64_t fetch, const std::shared_ptr<Ticket>& ticket);

  // A batch was opened; the first one is the first to be published.
  void opened(uint64_t batch);
  // In order.
  void publish(uint64_t batch, Batch finished);
  // No batch can be had any more from this one on. Of a batch, the first error counts.
  void end_with(uint64_t batch, Error error) { failures_.emplace(batch, std::move(error)); }
  bool failed(uint64_t batch) const { return failures_.contains(batch); }
  void publish_failure();
  void begin_anew();
  void answer(uint64_t fetch, Fetched fetched);
  void forget(uint64_t fetch);
  uint64_t ready() const;
  // Whoever still waits for a fetch waits in vain.
  void close();

 private:
  void push(uint64_t batch, Result<Batch> result);

  EngineCounts& counts_;
  // The loop's.
  std::map<uint64_t, Error> failures_;  // by batch
  std::optional<uint64_t> next_;        // to be published

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable delivered_;
  std::deque<Ready> ready_;
  uint64_t drops_ = 0;
  uint64_t drops_done_ = 0;                            // carried out by the loop
  std::map<uint64_t, std::weak_ptr<Ticket>> tickets_;  // until they are answered
};

}  // namespace foreload
