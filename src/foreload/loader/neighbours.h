// SPDX-License-Identifier: Apache-2.0
//
// The ranks of a job that run on the same host, and how they get at each other's memory tiers. Who
// is where passes through the rendezvous while ranks join; the memory passes over Unix sockets. A
// neighbour whose memory cannot be had is a peer like any other, and a warning says why.
//
// For one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/loader/joining.h"
#include "foreload/peers/shared_memory.h"
#include "foreload/tiers/memory_view.h"

namespace foreload {

struct Neighbours {
  std::vector<uint32_t> ranks;    // on this host, without this one
  std::vector<uint32_t> sharing;  // those of them that have memory to share
  std::string job;                // a name that no other job has
};

// Collective: tells the others where this rank is and whether it has memory to share. A `host` name
// takes the place of what the system says, so that ranks on one host can count as ranks on several;
// empty: FORELOAD_HOST, if it is set. Fails as exchange() does.
Result<Neighbours> find_neighbours(const JoinSettings& join, uint32_t rank, uint32_t ranks,
                                   const std::string& host, bool has_memory);

class SharedTiers {
 public:
  // Lets the neighbours have this rank's memory (MemoryCopies::memory(); -1: it has none). `gone`
  // hears of neighbours that have ended, at once, after fetch().
  SharedTiers(const Neighbours& neighbours, uint32_t rank, int memory,
              SharedMemory::Gone gone = {});

  // Hears from now on of those that end. Before ranks agree on the plan, which none leaves before
  // all have come: who is quick might otherwise have ended before a slow one listens.
  void watch(const Neighbours& neighbours, std::chrono::milliseconds timeout);
  // Their memory, by rank of `ranks`, null where there is none. Waits for those that have not
  // published theirs yet.
  std::vector<std::shared_ptr<const MemoryView>> fetch(const Neighbours& neighbours, uint32_t ranks,
                                                       std::chrono::milliseconds timeout);
  // See SharedMemory.
  bool has_left(uint32_t rank) const { return shared_ && shared_->has_left(rank); }
  void leave() {
    if (shared_) shared_->leave();
  }
  // One line each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::unique_ptr<SharedMemory> shared_;
  std::vector<std::string> warnings_;
};

}  // namespace foreload
