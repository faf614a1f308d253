// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/lateness.h"

#include <algorithm>

namespace foreload {

void Lateness::set_timer() {
  if (!parts_.flights.any() && !peering_.is_owed_something())
    next_look_ = kNever;
  else if (next_look_ == kNever)
    next_look_ = parts_.desk.now + parts_.desk.settings.hedge_after;
  const RunTime wanted = std::min(next_look_, parts_.flights.next_retry());
  if (wanted == kNever || wanted == timer_) return;
  timer_ = wanted;
  parts_.desk.act(action::SetTimer{wanted});
}

void Lateness::rang() {
  timer_ = kNever;
  parts_.flights.retry_due();
  if (next_look_ <= parts_.desk.now) look();
}

void Lateness::look() {
  next_look_ = kNever;
  const uint32_t slots = parts_.flights.size();  // hedges add more
  for (uint32_t slot = 0; slot < slots; ++slot) {
    const Flight& flight = parts_.flights[slot];
    if (!flight.active) continue;
    if (flight.is_from(Origin::Kind::tier) &&
        parts_.desk.now - flight.begin >= parts_.desk.settings.tier_deadline) {
      give_up_tier_read(slot);
      continue;
    }
    if (flight.is_from(Origin::Kind::neighbour)) continue;  // a copy in memory: it ends soon
    if (flight.is_hedged() || !parts_.flights.is_late(flight)) continue;
    // Only what the next batch waits for.
    const BatchPlace* waiting =
        flight.has_place() ? &flight.place : parts_.window.first_waiter(flight.sample);
    if (waiting == nullptr || !parts_.window.is_next(*waiting)) continue;
    const BatchPlace place = *waiting;
    reads_.hedge(slot, place);
  }
  if (parts_.desk.with_peers) peering_.look_after();
}

void Lateness::give_up_tier_read(uint32_t slot) {
  const Flight& flight = parts_.flights.cancel(slot);
  const uint32_t tier = flight.from.number;
  if (parts_.flights.count_late(tier) && parts_.copies.alive(tier)) {
    parts_.desk.act(action::LoseTier{tier});
    reads_.lose_tier(tier);
  }
  reads_.lose_copy(flight, ReadEnd::deadline);
}

}  // namespace foreload
