// SPDX-License-Identifier: Apache-2.0
//
// Which peers are alive, as far as this rank knows: when each was heard, who was asked for a sign
// of life and has not answered, and who is late with what it should push.
//
// For one thread.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "foreload/policy/desk.h"

namespace foreload {

class Lives {
 public:
  explicit Lives(Desk& desk);

  bool up(uint32_t rank) const { return peers_[rank].up; }
  // A rank on this host, whose memory is read in place.
  bool is_neighbour(uint32_t rank) const { return !neighbour_.empty() && neighbour_[rank]; }
  uint32_t ranks() const { return static_cast<uint32_t>(peers_.size()); }

  void heard(uint32_t rank);
  RunTime last_heard(uint32_t rank) const { return peers_[rank].heard; }  // 0: never
  // It was asked for a sign of life so long ago, and has given none.
  bool is_silent(uint32_t rank, RunTime for_so_long) const;
  const std::set<uint32_t>& silent() const { return silent_; }
  RunTime doubted(uint32_t rank) const { return peers_[rank].doubted; }
  void ping(uint32_t rank);
  // Somebody seems to be dead. Others may have died with it, or this rank may be cut off: they are
  // found out now, not one after the other when each is needed.
  void ping_all();
  // False if that was known.
  bool lose(uint32_t rank, bool in_order);

  // With what it should push: nobody waits for that any more. This rank may be late too.
  bool late(uint32_t rank) const { return peers_[rank].late; }
  void set_late(uint32_t rank, bool late) { peers_[rank].late = late; }

 private:
  struct Peer {
    bool up = true;
    bool late = false;
    RunTime heard{0};
    RunTime pinged{0};   // the last time
    RunTime doubted{0};  // the first time since it was heard, if it is one of silent_
  };

  Desk& desk_;
  std::vector<Peer> peers_;      // by rank; empty without peers
  std::vector<bool> neighbour_;  // by rank; empty without neighbours
  std::set<uint32_t> silent_;    // asked for a sign of life, and not heard since
};

}  // namespace foreload
