// SPDX-License-Identifier: Apache-2.0
//
// What the words and the silence of peers mean. Whoever was silent for the peer timeout while it
// owed something is dead, and the rank goes on without it; nobody waits longer than that for the
// dead, however many there are. Owns nothing; all it knows is in the parts.
//
// For one thread.
#pragma once

#include <cstdint>

#include "foreload/policy/reads.h"

namespace foreload {

class Peering {
 public:
  Peering(PolicyParts& parts, Reads& reads) : parts_(parts), reads_(reads) {}

  // REQUIRES: with peers.
  // Who was never heard, and is gone when it is first spoken to, has most likely done its work: it
  // says goodbye to those only that it has talked to.
  void on(const event::PeerDown& e) {
    lose(e.rank, e.in_order || parts_.lives.last_heard(e.rank) == RunTime{0});
  }
  void on(const event::PeerHeard& e) { parts_.lives.heard(e.rank); }
  void on(const event::PeerRequest& e);
  void on(const event::PeerCancel& e);
  void on(const event::Served& e) { parts_.serving.sent(e); }
  void on(const event::PeerPush& e);
  void on(const event::PushAnswered& e) { parts_.pushes.answered(e); }

  // What the loop waits for now, and a peer should have pushed by now, is read instead.
  void overtake_pushes();
  // Somebody may have to be reminded.
  bool is_owed_something() const;
  // Reminds peers of what they owe, and gives up those that are dead.
  void look_after();

 private:
  void place(const event::PeerPush& e, uint32_t tier);
  void cannot_come(const event::PeerPush& e);
  void stop_expecting(uint64_t sample);
  void stop_waiting_for_silent_peers();
  void lose(uint32_t rank, bool in_order);

  PolicyParts& parts_;
  Reads& reads_;
  RunTime overtook_{0};
};

}  // namespace foreload
