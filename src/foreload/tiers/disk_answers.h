// SPDX-License-Identifier: Apache-2.0
//
// Answers of the disk tier, each exactly once and none after the end, whichever thread comes first:
// the one that did the work, or the one that ends the tier, or gives a borrower back, while the
// system still has it. Also where the tier remembers why it turned itself off. Any thread may use
// them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "foreload/tiers/tier.h"

namespace foreload::disk_cache {

// What became of the request with this ticket.
struct Ended {
  uint64_t ticket = 0;
  TierEnd end = TierEnd::failed;
  uint64_t checksum = 0;
};

class DiskAnswers {
 public:
  // `bit` is what its copies are marked with.
  Tier::Borrower lend(Tier::Answered answered, uint64_t bit);
  uint64_t bit_of(Tier::Borrower borrower) const;  // 0: it is not there
  // Answers what the borrower asked for: what has not begun at once, the rest as it ends or, when
  // the time is over, `failed`. Returns its bit when none of its answers is being given any more;
  // nothing if it is not there.
  std::optional<uint64_t> give_back(Tier::Borrower borrower,
                                    std::chrono::steady_clock::time_point deadline);

  // Tickets for requests that must be answered, in a row from the one returned. 0: nobody is there
  // to answer.
  template <class Request>
  uint64_t expect(Tier::Borrower borrower, std::span<Request> requests) {
    const std::lock_guard lock(mutex_);
    const auto lent = borrowers_.find(borrower);
    if (lent == borrowers_.end() || lent->second.leaving) return 0;
    const uint64_t first = last_ticket_ + 1;
    for (const Request& request : requests)
      waiting_.emplace(++last_ticket_, Waiting{&lent->second, request.id});
    lent->second.waiting += requests.size();
    return first;
  }
  // Whether the request is to be carried out. If not it was answered, or is to be answered
  // `cancelled`.
  bool begin(uint64_t ticket);
  // A request that has not begun will not. Its ticket.
  std::vector<uint64_t> cancel(Tier::Borrower borrower, uint64_t id);
  // Passes over what was answered already.
  void answer(std::span<const Ended> ended);
  void answer(const Ended& ended) { answer(std::span(&ended, 1)); }
  // Answers everything that waits; returns when no answer is being given any more.
  void close();

 private:
  struct Lent {
    Tier::Answered answered;
    uint64_t bit = 0;
    uint64_t waiting = 0;  // requests whose answer was not given
    bool leaving = false;
  };
  struct Waiting {
    Lent* lent;
    uint64_t id;
    bool begun = false;
    bool cancelled = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  // Both give the lock away and take it again.
  void give(Lent& lent, std::vector<TierAnswer>& answers, Lock& lock);
  void answer_all(const Lent* only, bool begun, Lock& lock);  // null: everybody's

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::map<Tier::Borrower, Lent> borrowers_;
  std::unordered_map<uint64_t, Waiting> waiting_;  // by ticket
  Tier::Borrower last_borrower_ = 0;
  uint64_t last_ticket_ = 0;
};

class DiskHealth {
 public:
  // The first reason counts.
  void die(std::string why) {
    const std::lock_guard lock(mutex_);
    if (!why_) why_ = std::move(why);
    dead_.store(true, std::memory_order_release);
  }
  bool dead() const { return dead_.load(std::memory_order_acquire); }
  std::optional<std::string> why() const {
    const std::lock_guard lock(mutex_);
    return why_;
  }

 private:
  std::atomic<bool> dead_{false};
  mutable std::mutex mutex_;  // guards why_
  std::optional<std::string> why_;
};

}  // namespace foreload::disk_cache
