// SPDX-License-Identifier: Apache-2.0
//
// The threads of a simulated rank that decode samples and make the form in which they are kept.
// Free ones take what the loop needs first.
//
// For one thread.
#pragma once

#include <cstdint>
#include <set>
#include <utility>

#include "foreload/sim/rank_batches.h"
#include "foreload/sim/rank_desk.h"
#include "foreload/sim/rank_operations.h"

namespace foreload::sim {

class DecodeThreads {
 public:
  DecodeThreads(const RankDesk& desk, const RankOperations& operations, const RankBatches& batches)
      : desk_(desk), operations_(operations), batches_(batches) {}

  // An operation of Work::decode or Work::make waits for a thread.
  void add(uint64_t token);
  // One of them has ended.
  void ended();

 private:
  void go_on();

  const RankDesk& desk_;
  const RankOperations& operations_;
  const RankBatches& batches_;
  std::set<std::pair<BatchPlace, uint64_t>> waiting_;  // with their tokens, the next one first
  unsigned busy_ = 0;
};

}  // namespace foreload::sim
