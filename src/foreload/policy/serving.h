// SPDX-License-Identifier: Apache-2.0
//
// What peers asked this rank for: requests that wait for a sample on its way here, those that wait
// for their turn, and what is being sent.
//
// For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "foreload/policy/keeping.h"

namespace foreload {

class Serving {
 public:
  Serving(Desk& desk, Copies& copies, Keeping& keeping, Lives& lives)
      : desk_(desk), copies_(copies), keeping_(keeping), lives_(lives) {}

  // A peer's request.
  struct Ask {
    uint32_t rank;
    uint64_t request;
    uint64_t sample;
    RunTime since{0};
  };
  // Sends the sample, now or when it is its turn. REQUIRES: a tier has it.
  void serve(const Ask& ask);
  void refuse(const Ask& ask);
  // It waits until the sample is here, or known not to come.
  void park(const Ask& ask) { parked_[ask.sample].push_back(ask); }
  // Serves or refuses those that wait for the sample.
  void answer(uint64_t sample);
  void sent(const event::Served& e);

  void cancel(uint32_t rank, uint64_t request);
  void drop_peer(uint32_t rank);
  // A seek: what waits is refused, unless its sample is being placed.
  void forget();
  // Refuses what has waited too long.
  void lose_patience();

  bool idle() const { return parked_.empty() && sending_.empty(); }
  // Calls `owes(rank, since)` for everybody alive who should take what it asked for.
  void visit_takers(const std::function<void(uint32_t rank, RunTime since)>& owes) const;

 private:
  // What is being sent to a peer.
  struct Sending {
    uint32_t samples = 0;
    RunTime since{0};  // the last of it left, or the first was begun
  };
  bool may_send(const Ask& ask) const;
  void send(const Ask& ask);
  void erase(const std::function<bool(const Ask&)>& which);

  Desk& desk_;
  Copies& copies_;
  Keeping& keeping_;
  Lives& lives_;
  std::map<uint64_t, std::vector<Ask>> parked_;  // by sample that is on its way here
  std::deque<Ask> waiting_;                      // for their turn
  std::map<uint32_t, Sending> sending_;          // by rank
  uint64_t sending_bytes_ = 0;
};

}  // namespace foreload
