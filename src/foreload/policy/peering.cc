// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/peering.h"

#include <algorithm>
#include <map>
#include <vector>

namespace foreload {

void Peering::on(const event::PeerRequest& e) {
  if (!p_.lives.up(e.rank)) return;
  p_.lives.heard(e.rank);
  const Serving::Ask ask{e.rank, e.request, e.sample, p_.desk.now};
  if (p_.copies.has(e.sample)) return p_.serving.serve(ask);
  const uint32_t self = p_.desk.settings.rank;
  if (p_.copies.on_its_way(e.sample) == OnItsWay::no && !p_.first_reads.expect(e.sample)) {
    const bool reads_it_itself = p_.desk.is_owner(e.sample) && !p_.first_reads.unsure() &&
                                 !p_.copies.is(e.sample, Past::came) && !p_.lives.late(self) &&
                                 p_.first_reads.first_reader(e.sample) == self;
    if (!reads_it_itself) return p_.serving.refuse(ask);
  }
  if (p_.keeping.tier_of(e.sample) == kNoTier) return p_.serving.refuse(ask);
  p_.serving.park(ask);
}

void Peering::on(const event::PeerCancel& e) {
  p_.lives.heard(e.rank);
  p_.serving.cancel(e.rank, e.request);
}

void Peering::on(const event::PeerPush& e) {
  if (!p_.lives.up(e.rank)) return;
  p_.lives.heard(e.rank);
  p_.lives.set_late(e.rank, false);
  if (e.push == kNoPush) return cannot_come(e);
  if (p_.copies.has(e.sample)) return p_.pushes.answer(e, PushEnd::kept);
  const uint32_t tier = e.intact ? p_.keeping.tier_of(e.sample) : kNoTier;
  p_.copies.mark(e.sample, Past::came);
  const OnItsWay state = p_.copies.on_its_way(e.sample);
  if (tier == kNoTier) {
    p_.pushes.answer(e, PushEnd::refused);
    if (state == OnItsWay::expected) stop_expecting(e.sample);  // it will not come again
    return;
  }
  // One of several is placed.
  if (!p_.pushes.take_in(e) || state == OnItsWay::placing) return;
  p_.first_reads.came(e.sample);
  if (state != OnItsWay::arriving) p_.copies.set(e.sample, OnItsWay::placing);
  if (!p_.desk.is_owner(e.sample)) p_.keeping.adopt(e.sample, tier);
  place(e, tier);
  const uint32_t second = p_.keeping.second_tier_of(e.sample);
  if (second != kNoTier) place(e, second);
}

void Peering::place(const event::PeerPush& e, uint32_t tier) {
  p_.keeping.place(e.sample, tier);
  p_.desk.act(action::PlacePushed{e.rank, e.push, e.sample, tier});
}

// A peer says that it cannot read a sample.
void Peering::cannot_come(const event::PeerPush& e) {
  const auto expected = p_.first_reads.expected().find(e.sample);
  if (expected != p_.first_reads.expected().end()) {
    if (expected->second.from == e.rank) stop_expecting(e.sample);
  } else if (p_.first_reads.first_reader(e.sample) == e.rank) {
    p_.copies.mark(e.sample, Past::came);  // or as good as
  }
}

// It does not come: who waits here reads it, peers are told to.
void Peering::stop_expecting(uint64_t sample) {
  p_.first_reads.give_up(sample);
  reads_.wake_waiters(sample);
}

bool Peering::is_owed_something() const {
  return !p_.first_reads.expected().empty() || !p_.pushes.idle() || !p_.serving.idle() ||
         !p_.lives.silent().empty();
}

void Peering::look_after() {
  const RunTime now = p_.desk.now;
  const PolicySettings& settings = p_.desk.settings;
  // Since when each peer owes something.
  std::map<uint32_t, RunTime> owed;
  auto owes = [&owed](uint32_t rank, RunTime since) {
    const auto [entry, is_new] = owed.try_emplace(rank, since);
    if (!is_new) entry->second = std::min(entry->second, since);
  };
  auto asks_peer = [this](uint32_t slot) {
    return p_.flights[slot].active && p_.flights[slot].is_from(Origin::Kind::peer);
  };
  for (uint32_t slot = 0; slot < p_.flights.size(); ++slot)
    if (asks_peer(slot)) owes(p_.flights[slot].from.number, p_.flights[slot].begin);
  std::vector<uint64_t> late;
  for (const auto& [sample, expected] : p_.first_reads.expected()) {
    owes(expected.from, expected.since);
    if (now - expected.since >= settings.push_patience) late.push_back(sample);
  }
  // Whoever lives answers within its patience: what takes longer was lost on the way.
  const RunTime lost_after = settings.push_patience + settings.peer_timeout;
  p_.pushes.visit_sent(lost_after, owes);
  for (uint32_t slot = 0; slot < p_.flights.size(); ++slot)
    if (asks_peer(slot) && now - p_.flights[slot].begin >= lost_after)
      reads_.give_up_peer_read(slot);
  for (const uint64_t sample : late) {
    p_.lives.set_late(p_.first_reads.expected().at(sample).from, true);
    stop_expecting(sample);
  }
  p_.serving.visit_takers(owes);
  for (const uint32_t rank : p_.lives.silent()) owes(rank, p_.lives.doubted(rank));
  p_.serving.lose_patience();
  bool doubts = false;
  for (const auto& [rank, since] : owed) {
    const RunTime silent = now - std::max(p_.lives.last_heard(rank), since);
    if (silent >= settings.peer_timeout) {
      lose(rank, /*in_order=*/false);
    } else if (silent >= settings.peer_timeout / 4) {
      doubts = doubts || p_.lives.is_silent(rank, settings.peer_timeout / 8);
      p_.lives.ping(rank);
    }
  }
  if (doubts) p_.lives.ping_all();
  stop_waiting_for_silent_peers();
}

// What waited for peers for the peer timeout, and waits for a silent one now: the source has it.
void Peering::stop_waiting_for_silent_peers() {
  const RunTime a_moment = p_.desk.settings.peer_timeout / 16;
  for (uint32_t slot = 0; slot < p_.flights.size(); ++slot) {
    const Flight& flight = p_.flights[slot];
    if (!flight.active || !flight.is_from(Origin::Kind::peer) ||
        p_.desk.now - p_.window.at(flight.place).asked < p_.desk.settings.peer_timeout)
      continue;
    const uint32_t rank = flight.from.number;
    if (p_.lives.is_silent(rank, a_moment))
      reads_.give_up_peer_read(slot);
    else if (p_.desk.now - std::max(p_.lives.last_heard(rank), flight.begin) >= a_moment)
      p_.lives.ping(rank);
  }
}

void Peering::lose(uint32_t rank, bool in_order) {
  if (!p_.lives.lose(rank, in_order)) return;
  p_.keeping.take_over_replicas();
  p_.serving.drop_peer(rank);
  p_.pushes.drop_peer(rank);
  std::vector<uint64_t> never;
  for (const auto& [sample, expected] : p_.first_reads.expected())
    if (expected.from == rank) never.push_back(sample);
  for (const uint64_t sample : never) stop_expecting(sample);
  reads_.leave_peer(rank);
}

}  // namespace foreload
