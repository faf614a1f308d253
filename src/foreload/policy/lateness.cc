// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/lateness.h"

#include <algorithm>

namespace foreload {

void Lateness::set_timer() {
  if (!p_.flights.any() && !peering_.is_owed_something())
    next_look_.reset();
  else if (!next_look_)
    next_look_ = p_.desk.now + p_.desk.settings.hedge_after;
  std::optional<RunTime> wanted = next_look_;
  if (const auto retry = p_.flights.next_retry())
    wanted = std::min(wanted.value_or(RunTime::max()), *retry);
  if (!wanted || wanted == timer_) return;
  timer_ = wanted;
  p_.desk.act(action::SetTimer{*wanted});
}

void Lateness::rang() {
  timer_.reset();
  p_.flights.retry_due();
  if (next_look_ && *next_look_ <= p_.desk.now) look();
}

void Lateness::look() {
  next_look_.reset();
  const uint32_t slots = p_.flights.size();  // hedges add more
  for (uint32_t slot = 0; slot < slots; ++slot) {
    const Flight& flight = p_.flights[slot];
    if (!flight.active) continue;
    if (flight.is_from(Origin::Kind::tier) &&
        p_.desk.now - flight.begin >= p_.desk.settings.tier_deadline) {
      give_up_tier_read(slot);
      continue;
    }
    if (flight.is_from(Origin::Kind::neighbour)) continue;  // a copy in memory: it ends soon
    if (flight.is_hedged() || !p_.flights.is_late(flight)) continue;
    // Only what the next batch waits for.
    const BatchPlace* waiting =
        flight.has_place() ? &flight.place : p_.window.first_waiter(flight.sample);
    if (waiting == nullptr || !p_.window.is_next(*waiting)) continue;
    const BatchPlace place = *waiting;
    reads_.hedge(slot, place);
  }
  if (p_.desk.with_peers) peering_.look_after();
}

void Lateness::give_up_tier_read(uint32_t slot) {
  const Flight flight = p_.flights.cancel(slot);
  const uint32_t tier = flight.from.number;
  if (p_.flights.count_late(tier) && p_.copies.alive(tier)) {
    p_.desk.act(action::LoseTier{tier});
    reads_.lose_tier(tier);
  }
  reads_.lose_copy(flight, ReadEnd::deadline);
}

}  // namespace foreload
