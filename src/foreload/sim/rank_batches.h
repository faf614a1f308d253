// SPDX-License-Identifier: Apache-2.0
//
// The batches of a simulated rank: those that are being filled, with whose bytes, and those that
// its loop can have.
//
// For one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "foreload/sim/outcome.h"
#include "foreload/sim/rank_desk.h"

namespace foreload::sim {

class RankBatches {
 public:
  // A batch that the loop can have.
  struct Ready {
    uint64_t number = 0;
    uint64_t bytes = 0;
    uint64_t samples = 0;
  };

  explicit RankBatches(const RankDesk& desk);

  void open(const action::OpenBatch& a);
  void close(uint64_t batch) { open_.erase(batch); }
  // The bytes of a sample are in its place, if that is still there.
  void fill(BatchPlace place, uint64_t sample, const Origin& from);
  void copy(BatchPlace from, BatchPlace to);
  // The world is told, and then that the loop can have it.
  void deliver(uint64_t batch);
  // Whether it is in memory that no batch was in before.
  bool fresh(uint64_t batch) const;

  std::deque<Ready>& ready() { return ready_; }
  // Of all batches delivered.
  const Hits& hits() const { return hits_; }

 private:
  struct OpenBatch {
    action::OpenBatch opened;
    std::vector<uint64_t> filled;  // samples whose bytes are there
    std::vector<Origin> from;
    bool fresh = false;
  };

  const RankDesk& desk_;
  std::unordered_map<uint64_t, OpenBatch> open_;
  size_t slots_ = 0;  // batches that there is memory for
  std::deque<Ready> ready_;
  Hits hits_;
};

}  // namespace foreload::sim
