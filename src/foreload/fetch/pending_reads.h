// SPDX-License-Identifier: Apache-2.0
//
// Reads that have begun and not ended: from the source, a tier, a peer, or the memory of a
// neighbour. The policy is told how each of them ends.
//
// For the loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "foreload/fetch/batch.h"
#include "foreload/fetch/inbox.h"
#include "foreload/fetch/loop_parts.h"
#include "foreload/policy/actions.h"
#include "foreload/staging/staging.h"
#include "foreload/tiers/memory_view.h"

namespace foreload {

struct PendingRead {
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

class PendingReads {
 public:
  explicit PendingReads(LoopParts& parts) : parts_(parts) {}

  // What goes to tiers and neighbours goes there with flush().
  void begin(const action::Read& a);
  void cancel(uint64_t request);
  // Nothing happens if it was cancelled before.
  void end(uint64_t request, ReadEnd end);
  // Null if it has ended.
  const PendingRead* find(uint64_t request) const;
  // Ends the round: what has arrived is forgotten.
  void flush();

  void handle(SourceAnswer& answer);
  void handle(message::NeighbourRead& read);

  // Bytes that arrived in this round and lie in no batch, by request, until they are made or
  // placed.
  std::unordered_map<uint64_t, std::shared_ptr<Slot>>& arrived() { return arrived_; }
  // Why the sample could not be read from the source the last time.
  std::string last_error(uint64_t sample) const;
  uint64_t asked_of_peers() const { return asked_; }

 private:
  struct NeighbourJob {
    std::vector<std::pair<uint32_t, std::shared_ptr<const MemoryView>>> neighbours;  // in turn
    uint64_t request;
    CopyKey key;
    KeptBytes into;
  };

  // What a read brings is made into the form in which samples are kept before anybody has it.
  bool is_made(Origin from) const {
    return from.kind == Origin::Kind::source && parts_.form != nullptr;
  }
  void read_source(const action::Read& a, PendingRead& pending, const KeptBytes& into);
  void read_neighbour(const action::Read& a, KeptBytes into);
  void count_peer_read(const PendingRead& pending, ReadEnd end);
  const char* track_of(Origin origin) const;

  LoopParts& parts_;
  std::unordered_map<uint64_t, PendingRead> pending_;    // by request
  std::unordered_map<uint64_t, uint64_t> source_reads_;  // id of a part's read -> request
  uint64_t next_source_read_ = 0;
  std::vector<NeighbourJob> neighbour_reads_;  // of this round
  uint64_t asked_ = 0;                         // of peers and not answered yet
  std::unordered_map<uint64_t, std::shared_ptr<Slot>> arrived_;
  std::unordered_map<uint64_t, std::string> last_error_;  // of samples being retried
};

}  // namespace foreload
