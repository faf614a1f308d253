// SPDX-License-Identifier: Apache-2.0
//
// The right to what an engine was asked for with fetch(). It is answered exactly once: with the
// samples, or with `cancelled` after cancel() and when the engine ends. Whoever lets go of it
// cancels it; it may outlive the engine.
//
// Any thread may call anything.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "foreload/fetch/batch.h"
#include "foreload/fetch/inbox.h"

namespace foreload {

class Ticket {
 public:
  Ticket(uint64_t number, std::shared_ptr<Inbox> inbox)
      : number_(number), inbox_(std::move(inbox)) {}
  ~Ticket() { cancel(); }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  // False if `until` passes before it is answered.
  bool wait(std::optional<SteadyTime> until = std::nullopt) const;
  // REQUIRES: it is answered.
  const Result<Fetched>& answer() const { return *answer_; }
  // What was begun for it alone is given up.
  void cancel();

  // The engine's. Only the first counts.
  bool set(Result<Fetched> answer);

 private:
  const uint64_t number_;
  const std::shared_ptr<Inbox> inbox_;
  mutable std::mutex mutex_;
  mutable std::condition_variable answered_;
  std::optional<Result<Fetched>> answer_;  // does not change any more once it is there
};

}  // namespace foreload
