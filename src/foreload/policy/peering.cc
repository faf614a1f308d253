// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/peering.h"

#include <algorithm>
#include <map>
#include <vector>

namespace foreload {

void Peering::on(const event::PeerRequest& e) {
  if (!parts_.lives.up(e.rank)) return;
  parts_.lives.heard(e.rank);
  const Serving::Ask ask{e.rank, e.request, e.sample, parts_.desk.now};
  if (parts_.copies.has(e.sample)) return parts_.serving.serve(ask);
  const uint32_t self = parts_.desk.settings.rank;
  if (parts_.copies.on_its_way(e.sample) == OnItsWay::no && !parts_.first_reads.expect(e.sample)) {
    const bool reads_it_itself = parts_.desk.is_owner(e.sample) && !parts_.first_reads.unsure() &&
                                 !parts_.copies.is(e.sample, Past::came) &&
                                 !parts_.lives.late(self) &&
                                 parts_.first_reads.first_reader(e.sample) == self;
    if (!reads_it_itself) return parts_.serving.refuse(ask);
  }
  if (parts_.keeping.tier_of(e.sample) == kNoTier) return parts_.serving.refuse(ask);
  parts_.serving.park(ask);
}

void Peering::on(const event::PeerCancel& e) {
  parts_.lives.heard(e.rank);
  parts_.serving.cancel(e.rank, e.request);
}

void Peering::on(const event::PeerPush& e) {
  if (!parts_.lives.up(e.rank)) return;
  parts_.lives.heard(e.rank);
  parts_.lives.set_late(e.rank, false);
  if (e.push == kNoPush) return cannot_come(e);
  if (parts_.copies.has(e.sample)) return parts_.pushes.answer(e, PushEnd::kept);
  const uint32_t tier = e.intact ? parts_.keeping.tier_of(e.sample) : kNoTier;
  parts_.copies.mark(e.sample, Past::came);
  const OnItsWay state = parts_.copies.on_its_way(e.sample);
  if (tier == kNoTier) {
    parts_.pushes.answer(e, PushEnd::refused);
    if (state == OnItsWay::expected) stop_expecting(e.sample);  // it will not come again
    return;
  }
  // One of several is placed.
  if (!parts_.pushes.take_in(e) || state == OnItsWay::placing) return;
  parts_.first_reads.came(e.sample);
  if (state != OnItsWay::arriving) parts_.copies.set(e.sample, OnItsWay::placing);
  if (!parts_.desk.is_owner(e.sample)) parts_.keeping.adopt(e.sample, tier);
  place(e, tier);
  const uint32_t second = parts_.keeping.second_tier_of(e.sample);
  if (second != kNoTier) place(e, second);
}

void Peering::place(const event::PeerPush& e, uint32_t tier) {
  parts_.keeping.place(e.sample, tier);
  parts_.desk.act(action::PlacePushed{e.rank, e.push, e.sample, tier});
}

// A peer says that it cannot read a sample.
void Peering::cannot_come(const event::PeerPush& e) {
  const auto expected = parts_.first_reads.expected().find(e.sample);
  if (expected != parts_.first_reads.expected().end()) {
    if (expected->second.from == e.rank) stop_expecting(e.sample);
  } else if (parts_.first_reads.first_reader(e.sample) == e.rank) {
    parts_.copies.mark(e.sample, Past::came);  // or as good as
  }
}

// It does not come: who waits here reads it, peers are told to.
void Peering::stop_expecting(uint64_t sample) {
  parts_.first_reads.give_up(sample);
  reads_.wake_waiters(sample);
}

void Peering::overtake_pushes() {
  const auto& expected = parts_.first_reads.expected();
  if (expected.empty() || parts_.desk.settings.objective == Objective::traffic ||
      !parts_.demand.waits() || !parts_.paths.limiter(kSource).has_room())
    return;
  // As long as it would take to read it twice.
  const auto patience = std::chrono::duration_cast<RunTime>(
      std::chrono::duration<double>(2 * parts_.paths.outlook().seconds(Outlook::kSourceWay, 1)));
  if (parts_.desk.now - overtook_ < patience / 2) return;
  overtook_ = parts_.desk.now;
  std::vector<uint64_t> late;
  for (const auto& [sample, since] : expected) {
    const BatchPlace* waiting = parts_.window.first_waiter(sample);
    if (waiting != nullptr && parts_.window.is_next(*waiting) &&
        parts_.desk.now - since.since >= patience)
      late.push_back(sample);
  }
  for (const uint64_t sample : late) stop_expecting(sample);
}

bool Peering::is_owed_something() const {
  return !parts_.first_reads.expected().empty() || !parts_.pushes.idle() ||
         !parts_.serving.idle() || !parts_.lives.silent().empty();
}

void Peering::look_after() {
  const RunTime now = parts_.desk.now;
  const PolicySettings& settings = parts_.desk.settings;
  // Since when each peer owes something.
  std::map<uint32_t, RunTime> owed;
  auto owes = [&owed](uint32_t rank, RunTime since) {
    const auto [entry, is_new] = owed.try_emplace(rank, since);
    if (!is_new) entry->second = std::min(entry->second, since);
  };
  auto asks_peer = [this](uint32_t slot) {
    return parts_.flights[slot].active && parts_.flights[slot].is_from(Origin::Kind::peer);
  };
  for (uint32_t slot = 0; slot < parts_.flights.size(); ++slot)
    if (asks_peer(slot)) owes(parts_.flights[slot].from.number, parts_.flights[slot].begin);
  std::vector<uint64_t> late;
  for (const auto& [sample, expected] : parts_.first_reads.expected()) {
    owes(expected.from, expected.since);
    if (now - expected.since >= settings.push_patience) late.push_back(sample);
  }
  // Whoever lives answers within its patience: what takes longer was lost on the way.
  const RunTime lost_after = settings.push_patience + settings.peer_timeout;
  parts_.pushes.visit_sent(lost_after, owes);
  for (uint32_t slot = 0; slot < parts_.flights.size(); ++slot)
    if (asks_peer(slot) && now - parts_.flights[slot].begin >= lost_after)
      reads_.give_up_peer_read(slot);
  for (const uint64_t sample : late) {
    parts_.lives.set_late(parts_.first_reads.expected().at(sample).from, true);
    stop_expecting(sample);
  }
  parts_.serving.visit_takers(owes);
  for (const uint32_t rank : parts_.lives.silent()) owes(rank, parts_.lives.doubted(rank));
  parts_.serving.lose_patience();
  bool doubts = false;
  for (const auto& [rank, since] : owed) {
    const RunTime silent = now - std::max(parts_.lives.last_heard(rank), since);
    if (silent >= settings.peer_timeout) {
      lose(rank, /*in_order=*/false);
    } else if (silent >= settings.peer_timeout / 4) {
      doubts = doubts || parts_.lives.is_silent(rank, settings.peer_timeout / 8);
      parts_.lives.ping(rank);
    }
  }
  if (doubts) parts_.lives.ping_all();
  stop_waiting_for_silent_peers();
}

// What waited for peers for the peer timeout, and waits for a silent one now: the source has it.
void Peering::stop_waiting_for_silent_peers() {
  const RunTime a_moment = parts_.desk.settings.peer_timeout / 16;
  for (uint32_t slot = 0; slot < parts_.flights.size(); ++slot) {
    const Flight& flight = parts_.flights[slot];
    if (!flight.active || !flight.is_from(Origin::Kind::peer) ||
        parts_.desk.now - parts_.window.at(flight.place).asked < parts_.desk.settings.peer_timeout)
      continue;
    const uint32_t rank = flight.from.number;
    if (parts_.lives.is_silent(rank, a_moment))
      reads_.give_up_peer_read(slot);
    else if (parts_.desk.now - std::max(parts_.lives.last_heard(rank), flight.begin) >= a_moment)
      parts_.lives.ping(rank);
  }
}

void Peering::lose(uint32_t rank, bool in_order) {
  if (!parts_.lives.lose(rank, in_order)) return;
  parts_.keeping.take_over_replicas();
  parts_.serving.drop_peer(rank);
  parts_.pushes.drop_peer(rank);
  std::vector<uint64_t> never;
  for (const auto& [sample, expected] : parts_.first_reads.expected())
    if (expected.from == rank) never.push_back(sample);
  for (const uint64_t sample : never) stop_expecting(sample);
  reads_.leave_peer(rank);
}

}  // namespace foreload
