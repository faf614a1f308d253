// SPDX-License-Identifier: Apache-2.0
//
// What happens to a place of a batch until its bytes are there: where its sample comes from, when
// the read begins, what its end means. Owns nothing; all it knows is in the parts.
//
// For one thread.
#pragma once

#include <cstdint>

#include "foreload/policy/parts.h"

namespace foreload {

class Reads {
 public:
  explicit Reads(PolicyParts& parts) : parts_(parts) {}

  // As far as the window has room.
  void open_batches();
  void open_fetches();
  // As far as paths have room.
  void start();
  // What keeps the loop waiting for a peer, and would come from the source sooner now, is read
  // there.
  void overtake();
  // Kept samples beyond the window go into their tiers while the source has nothing better to do.
  void read_ahead();

  void ended(const event::ReadEnded& e);
  void found(const event::Found& e);
  void made(const event::Made& e);
  void placed(const event::Placed& e);
  void lose_tier(uint32_t tier);
  // What is open or on its way is forgotten.
  void seek(const event::Seek& to);

  // Places that waited for a sample look for it anew, and peers that did are answered.
  void wake_waiters(uint64_t sample);
  // A copy that is not there any more is a miss.
  void lose_copy(const Flight& flight, ReadEnd end);
  // The read has taken too long: a second one may be faster.
  void hedge(uint32_t slot, BatchPlace place);
  // A peer does not answer: the source does.
  void give_up_peer_read(uint32_t slot);
  // What a dead peer was asked for comes from somewhere else.
  void leave_peer(uint32_t rank);

 private:
  uint64_t bytes_besides() const;
  uint64_t ahead_bytes() const;
  void look_for(BatchPlace place);
  void start_from_source(const BatchWindow::Entry& entry, BatchPlace place);
  void detour_failed(BatchPlace place);
  void look_for_anew(BatchPlace place);
  void ask(uint32_t keeper, BatchPlace place);
  void ask_keeper(BatchPlace place);
  void read_source_next(BatchPlace place);

  void arrived(const Flight& flight, uint64_t id);
  void keep(const Flight& flight, uint64_t id, uint32_t tier);
  void share(const Flight& flight, uint64_t id, uint32_t replica_tier);
  void place(const Flight& flight, uint64_t id, uint32_t tier);
  void not_arrived(const Flight& flight, ReadEnd end);
  bool is_held_up() const;
  bool pushes_are_late() const;
  void leave_out_push(uint64_t sample);
  void give_up(BatchPlace place);
  // Nobody wants what this place was to get from the source; others may.
  void leave_out(BatchPlace place);

  void leave_to_rival(const Flight& flight);
  void end_rival(const Flight& flight);
  void wait_at_place_of(const Flight& flight);
  // Somebody reads the sample of this place in a later epoch.
  bool is_read_later(BatchPlace place);

  PolicyParts& parts_;
  RunTime overtook_{0};  // the last time
};

}  // namespace foreload
