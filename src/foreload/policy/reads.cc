// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/reads.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace foreload {
namespace {

// The places of a batch: a large sample that begins last is what the batch waits for.
std::vector<uint32_t> largest_first(uint64_t batch, uint32_t samples, PolicyParts& parts) {
  std::vector<uint32_t> places(samples);
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, std::greater<>(), [&](uint32_t i) {
    return parts.desk.source_bytes(parts.window.at({batch, i}).sample);
  });
  return places;
}

void count_detour(const BatchWindow::Entry& entry, Desk& desk) {
  ++desk.totals.off_priority;
  desk.totals.off_priority_bytes += desk.source_bytes(entry.sample);
  desk.totals.off_priority_microseconds += static_cast<uint64_t>(1e6f * entry.won);
}

}  // namespace

void Reads::open_batches() {
  while (const ReadingList::Batch* next = parts_.list.next()) {
    const auto samples = static_cast<uint32_t>(next->samples.size());
    if (!parts_.window.has_room(next->bytes, samples, bytes_besides())) return;
    const uint64_t number = parts_.window.open(parts_.list.epoch(), next->samples, next->bytes);
    parts_.list.open(number);
    if (parts_.desk.settings.objective == Objective::time &&
        !parts_.desk.plan->sizes().each().empty())
      for (const uint32_t i : largest_first(number, samples, parts_)) look_for({number, i});
    else
      for (uint32_t i = 0; i < samples; ++i) look_for({number, i});
  }
}

// What waits to be written to a disk, or for a peer, takes memory too, also after its batch is
// consumed: that for reading ahead first, and then the window's.
uint64_t Reads::bytes_besides() const {
  const uint64_t ahead = parts_.desk.settings.ahead_bytes;
  const uint64_t bytes = ahead_bytes() + parts_.pushes.bytes();
  return bytes > ahead ? bytes - ahead : 0;
}

uint64_t Reads::ahead_bytes() const {
  return parts_.keeping.placing_bytes() + parts_.flights.ahead_bytes() +
         parts_.making.ahead_bytes();
}

void Reads::open_fetches() {
  while (const event::Fetch* next = parts_.window.next_fetch(bytes_besides())) {
    const auto samples = static_cast<uint32_t>(next->samples.size());
    const uint64_t number = parts_.window.open_fetch(parts_.list.epoch());
    for (uint32_t i = 0; i < samples; ++i) look_for({number, i});
  }
}

// Decides where the sample of an open place comes from.
void Reads::look_for(BatchPlace place) {
  BatchWindow::Entry& entry = parts_.window.at(place);
  const uint64_t sample = entry.sample;
  if (entry.is_detour()) entry.detour = BatchWindow::Detour::no;
  if (const uint32_t tiers = parts_.copies.tiers_of(sample); tiers != 0)
    return parts_.choice.line_up_for(tier_origin(static_cast<uint32_t>(std::countr_zero(tiers))),
                                     place);
  if (parts_.copies.on_its_way(sample) != OnItsWay::no) {
    ++parts_.desk.totals.merged;
    return parts_.window.wait_for(sample, place);
  }
  const bool ask_around = parts_.desk.with_peers && parts_.first_reads.was_read(sample);
  const uint32_t keeper = ask_around ? parts_.keepers.keeper_of(sample) : kNoOwner;
  const bool here = keeper == parts_.desk.settings.rank;
  // A push may come late in the epoch: who asks out of order is not to wait for it.
  if (here && !is_fetch(place.batch) && parts_.first_reads.expect(sample))
    return parts_.window.wait_for(sample, place);
  parts_.copies.set(sample, OnItsWay::arriving);
  if (parts_.keepers.neighbour_with(sample).kind == Origin::Kind::neighbour)
    parts_.choice.line_up(kNeighbours, place);
  else if (keeper == kNoOwner || here)
    parts_.choice.line_up(kSource, place);
  else
    ask(keeper, place);
}

// A tier has taken its sample since it was queued.
void Reads::look_for_anew(BatchPlace place) {
  const uint64_t sample = parts_.window.at(place).sample;
  parts_.copies.set(sample, OnItsWay::no);
  look_for(place);
  wake_waiters(sample);
}

// The place is queued to be asked for. Peers that did not answer it for the peer timeout have cost
// its batch enough: then it is the source's.
void Reads::ask(uint32_t keeper, BatchPlace place) {
  BatchWindow::Entry& entry = parts_.window.at(place);
  if (parts_.desk.now - std::min(entry.asked, parts_.desk.now) >= parts_.desk.settings.peer_timeout)
    return parts_.choice.go_first(place);
  parts_.choice.line_up_for(peer_origin(keeper), place);
  if (!entry.is_detour()) entry.asked = std::min(entry.asked, parts_.desk.now);
}

// No neighbour has it, or not yet.
void Reads::ask_keeper(BatchPlace place) {
  const uint64_t sample = parts_.window.at(place).sample;
  if (parts_.copies.has(sample)) return look_for_anew(place);
  const uint32_t keeper = parts_.keepers.keeper_of(sample);
  if (keeper == kNoOwner || keeper == parts_.desk.settings.rank)
    parts_.choice.go_first(place);
  else
    ask(keeper, place);
}

// It is needed first.
void Reads::read_source_next(BatchPlace place) {
  parts_.window.at(place).state = BatchWindow::State::waiting;
  parts_.choice.go_first(place);
}

// The copy is still there.
void Reads::detour_failed(BatchPlace place) {
  BatchWindow::Entry& entry = parts_.window.at(place);
  const bool own = entry.detour == BatchWindow::Detour::own_copy;
  entry.detour = BatchWindow::Detour::never;
  entry.state = BatchWindow::State::waiting;
  if (own)
    look_for(place);
  else
    look_for_anew(place);
}

void Reads::start() {
  while (parts_.paths.ready(kNeighbours)) {
    const BatchPlace place = parts_.choice.take(kNeighbours);
    const uint64_t sample = parts_.window.at(place).sample;
    const Origin from = parts_.keepers.neighbour_with(sample);
    if (from.kind == Origin::Kind::neighbour)
      parts_.flights.start(from, sample, place, parts_.paths.wanted(kNeighbours));
    else
      ask_keeper(place);
  }
  while (parts_.paths.ready(kSource)) {
    const BatchPlace place = parts_.choice.take(kSource);
    const BatchWindow::Entry& entry = parts_.window.at(place);
    if (parts_.window.is_forgotten(place))
      leave_out(place);
    else if (parts_.copies.has(entry.sample) && entry.detour != BatchWindow::Detour::own_copy)
      look_for_anew(place);
    else
      start_from_source(entry, place);
  }
  auto start_all = [this](Origin from) {
    while (parts_.paths.ready(from)) {
      const BatchPlace place = parts_.choice.take(from);
      parts_.flights.start(from, parts_.window.at(place).sample, place, parts_.paths.wanted(from));
    }
  };
  for (uint32_t tier = 0; tier < parts_.desk.tiers(); ++tier) start_all(tier_origin(tier));
  const auto& peers = parts_.paths.wanted_peers();
  for (auto rank = peers.begin(); rank != peers.end();) start_all(peer_origin(*rank++));
}

void Reads::start_from_source(const BatchWindow::Entry& entry, BatchPlace place) {
  if (entry.is_detour()) count_detour(entry, parts_.desk);
  parts_.flights.start(kSource, entry.sample, place, parts_.paths.wanted(kSource));
}

void Reads::overtake() {
  const Outlook& outlook = parts_.paths.outlook();
  const Limiter& source = parts_.paths.limiter(kSource);
  if (parts_.desk.settings.objective == Objective::traffic || !parts_.demand.waits() ||
      !parts_.demand.computes() || !source.has_room() || parts_.paths.wanted(kSource) ||
      outlook.unknown(Outlook::kSourceWay))
    return;
  const double one = outlook.seconds(Outlook::kSourceWay, source.limit());
  // As long as it would take to read it twice.
  const auto patience = std::chrono::duration_cast<RunTime>(std::chrono::duration<double>(2 * one));
  if (parts_.desk.now - overtook_ < patience / 2) return;
  overtook_ = parts_.desk.now;
  unsigned room = source.limit() - source.in_flight();
  for (uint32_t slot = 0; slot < parts_.flights.size() && room > 0; ++slot) {
    const Flight& flight = parts_.flights[slot];
    if (!flight.active || !flight.is_from(Origin::Kind::peer) || flight.is_hedged() ||
        !flight.has_place() || is_fetch(flight.place.batch) ||
        !parts_.window.is_next(flight.place) || parts_.desk.now - flight.begin < patience)
      continue;
    BatchWindow::Entry& entry = parts_.window.at(flight.place);
    if (entry.detour == BatchWindow::Detour::never) continue;
    entry.detour = BatchWindow::Detour::other_copy;
    const double there = outlook.seconds(flight.way, parts_.paths.limiter(flight.from).limit());
    entry.won = static_cast<float>(std::max(0.0, there - one));
    entry.state = BatchWindow::State::waiting;
    parts_.choice.go_first(parts_.flights.cancel(slot).place);
    --room;
  }
}

void Reads::read_ahead() {
  auto has_room = [this] {
    return parts_.paths.limiter(kSource).has_room() &&
           ahead_bytes() + parts_.pushes.bytes() < parts_.desk.settings.ahead_bytes;
  };
  bool room = !parts_.paths.wanted(kSource) && has_room();
  if (!room) return;
  parts_.list.look_ahead([&](uint64_t sample, bool more) {
    if (!room) return false;
    if (parts_.copies.has(sample) || parts_.copies.on_its_way(sample) != OnItsWay::no ||
        parts_.keeping.tier_of(sample) == kNoTier ||
        (parts_.desk.with_peers && parts_.first_reads.was_read(sample)))
      return true;
    parts_.copies.set(sample, OnItsWay::arriving);
    ++parts_.desk.totals.read_ahead;
    parts_.flights.start(kSource, sample, {kNoBatch, 0}, more);
    room = has_room();
    return true;
  });
}

void Reads::ended(const event::ReadEnded& e) {
  const Flight* flight = parts_.flights.end(e);
  if (flight == nullptr) return;
  if (e.end == ReadEnd::ok) {
    end_rival(*flight);
    if (flight->is_from(Origin::Kind::source) && parts_.desk.makes())
      parts_.making.begin(e.request, *flight);
    else
      arrived(*flight, e.request);
  } else if (flight->is_from(Origin::Kind::tier)) {
    lose_copy(*flight, e.end);
  } else if (flight->is_hedged()) {
    leave_to_rival(*flight);
  } else if (flight->is_from(Origin::Kind::neighbour)) {
    parts_.window.at(flight->place).state = BatchWindow::State::waiting;
    ask_keeper(flight->place);
  } else if (flight->is_from(Origin::Kind::peer)) {
    // The owner does not have it: it is this rank's turn to read it.
    read_source_next(flight->place);
  } else if (flight->has_place() && parts_.window.at(flight->place).is_detour()) {
    detour_failed(flight->place);
  } else {
    not_arrived(*flight, e.end);
  }
}

void Reads::made(const event::Made& e) {
  const std::optional<Flight> read = parts_.making.end(e.request);
  if (!read) return;
  if (e.ok)
    arrived(*read, e.request);
  else if (read->has_place() && parts_.window.at(read->place).is_detour())
    detour_failed(read->place);
  else
    not_arrived(*read, ReadEnd::undecodable);
}

void Reads::found(const event::Found& e) {
  const Flight* ended = parts_.flights.end({e.request, ReadEnd::missing});
  if (ended == nullptr) return;
  const Flight flight = *ended;
  parts_.keeping.found(flight.sample, e.tier);
  if (flight.has_place()) {
    parts_.window.at(flight.place).state = BatchWindow::State::waiting;
    return look_for_anew(flight.place);
  }
  parts_.copies.set(flight.sample, OnItsWay::no);
  wake_waiters(flight.sample);
}

void Reads::arrived(const Flight& flight, uint64_t id) {
  const uint64_t sample = flight.sample;
  if (flight.has_place()) parts_.window.filled(flight.place);
  uint32_t tier = parts_.keeping.tier_of(sample);
  if (tier != kNoTier && tier > 0 && is_held_up()) {
    ++parts_.desk.totals.left_out;
    if (parts_.desk.with_peers) parts_.copies.mark(sample, Past::came);
    tier = kNoTier;
  }
  const bool kept = tier != kNoTier;
  if (flight.is_from(Origin::Kind::tier)) {
    // Read from a slower tier than the plan wants it on: a copy moves up.
    if (kept && tier < flight.from.number && !parts_.copies.has(sample, tier))
      place(flight, id, tier);
    return;
  }
  // Read beside a copy of this rank, which is still there.
  if (flight.has_place() && parts_.window.at(flight.place).detour == BatchWindow::Detour::own_copy)
    return;
  if (flight.hedge && parts_.copies.on_its_way(sample) != OnItsWay::arriving) return;
  const uint32_t replica_tier =
      !kept && is_read_later(flight.place) ? parts_.keeping.replica_tier_of(sample) : kNoTier;
  const bool placed = kept || replica_tier != kNoTier;
  parts_.copies.set(sample, placed ? OnItsWay::placing : OnItsWay::no);
  if (kept)
    keep(flight, id, tier);
  else if (parts_.desk.with_peers)
    share(flight, id, replica_tier);
  if (flight.has_place()) {
    for (const BatchPlace& waiting : parts_.window.take_waiters(sample)) {
      parts_.desk.act(action::Copy{flight.place, waiting});
      if (flight.is_from(Origin::Kind::source))
        parts_.desk.totals.read_along_bytes += parts_.desk.source_bytes(sample);
      parts_.window.filled(waiting);
    }
  } else if (!kept && parts_.window.first_waiter(sample) != nullptr) {
    wake_waiters(sample);
  }  // else the bytes reach waiters through the tier
}

void Reads::keep(const Flight& flight, uint64_t id, uint32_t tier) {
  if (parts_.desk.with_peers) {
    parts_.copies.mark(flight.sample, Past::came);
    parts_.lives.set_late(parts_.desk.settings.rank, false);
    if (!parts_.desk.is_owner(flight.sample)) parts_.keeping.adopt(flight.sample, tier);
  }
  place(flight, id, tier);
  const uint32_t second = parts_.keeping.second_tier_of(flight.sample);
  if (second != kNoTier) place(flight, id, second);
}

// The loop waits, or soon will, because memory is full of what a disk or the network is too slow to
// take.
bool Reads::is_held_up() const {
  return parts_.desk.settings.objective == Objective::time && parts_.demand.computes() &&
         parts_.demand.is_short() &&
         parts_.keeping.placing_bytes() + parts_.pushes.bytes() >
             parts_.desk.settings.ahead_bytes / 2;
}

// What the network has still to take would be late for who needs it next.
bool Reads::pushes_are_late() const {
  if (parts_.desk.settings.objective == Objective::traffic || !parts_.demand.computes())
    return false;
  constexpr double kBatches = 4;
  const double from_source = parts_.paths.outlook().seconds_for_byte(Outlook::kSourceWay) *
                             static_cast<double>(parts_.desk.plan->sizes().mean() *
                                                 parts_.desk.plan->job().batching.batch_size);
  return parts_.pushes.seconds_left() > kBatches * std::max(parts_.demand.pace(), from_source);
}

// Its keeper is not to wait for it.
void Reads::leave_out_push(uint64_t sample) {
  const uint32_t keeper = parts_.keepers.keeper_of(sample);
  if (keeper == kNoOwner || keeper == parts_.desk.settings.rank) return;
  ++parts_.desk.totals.left_out;
  parts_.desk.act(action::TellUnread{keeper, sample});
}

// What this rank does not keep, or only as a replica, goes to its keeper.
void Reads::share(const Flight& flight, uint64_t id, uint32_t replica_tier) {
  // A hedge for a peer that took too long brings what the peer has.
  const bool beside_copy =
      flight.beside_peer || (flight.has_place() && parts_.window.at(flight.place).is_detour());
  if (flight.is_from(Origin::Kind::source) && !beside_copy && is_read_later(flight.place)) {
    if (is_held_up() || pushes_are_late())
      leave_out_push(flight.sample);
    else
      parts_.pushes.push(id, flight.sample, flight.place);
  }
  // It was to be adopted, and there is no room any more.
  if (replica_tier == kNoTier) return parts_.serving.answer(flight.sample);
  parts_.keeping.reserve_replica(flight.sample, replica_tier);
  place(flight, id, replica_tier);
}

void Reads::place(const Flight& flight, uint64_t id, uint32_t tier) {
  parts_.keeping.place(flight.sample, tier);
  parts_.desk.act(action::Place{id, flight.sample, flight.place, tier});
}

bool Reads::is_read_later(BatchPlace place) {
  return place.batch != kNoBatch && !parts_.desk.past_the_end(parts_.window.epoch_of(place) + 1);
}

void Reads::lose_copy(const Flight& flight, ReadEnd end) {
  const uint64_t sample = flight.sample;
  parts_.keeping.drop(sample, flight.from.number, end == ReadEnd::missing);
  const bool nowhere =
      !parts_.copies.has(sample) && parts_.copies.on_its_way(sample) == OnItsWay::no;
  if (flight.is_hedged()) {
    if (nowhere && parts_.flights[flight.rival].is_from(Origin::Kind::source))
      parts_.copies.set(sample, OnItsWay::arriving);
    return leave_to_rival(flight);
  }
  if (nowhere && (!parts_.desk.with_peers || parts_.desk.is_owner(sample))) {
    parts_.copies.set(sample, OnItsWay::arriving);
    return read_source_next(flight.place);
  }
  parts_.window.at(flight.place).state = BatchWindow::State::waiting;
  look_for(flight.place);
}

void Reads::not_arrived(const Flight& flight, ReadEnd end) {
  if (!flight.has_place()) {
    // Nobody needs it yet; whoever does will see what is wrong with it.
    parts_.copies.set(flight.sample, OnItsWay::no);
    return wake_waiters(flight.sample);
  }
  if (parts_.window.is_forgotten(flight.place)) return leave_out(flight.place);
  const PolicySettings& settings = parts_.desk.settings;
  BatchWindow::Entry& entry = parts_.window.at(flight.place);
  entry.end = end;
  entry.tries += end == ReadEnd::deadline && settings.tries > 2 ? settings.tries - 1 : 1;
  const bool hopeless =
      end == ReadEnd::permanent || end == ReadEnd::changed || end == ReadEnd::undecodable;
  if (hopeless || entry.tries >= settings.tries) return give_up(flight.place);
  ++parts_.desk.totals.retries;
  entry.state = BatchWindow::State::waiting;
  parts_.flights.try_again(
      parts_.desk.now + settings.first_back_off * (1 << std::min<unsigned>(entry.tries - 1, 10)),
      flight.place);
}

// The sample of this place, and of all places that wait for it, cannot be had.
void Reads::give_up(BatchPlace place) {
  const BatchWindow::Entry lost = parts_.window.at(place);
  parts_.copies.set(lost.sample, OnItsWay::no);
  if (parts_.desk.with_peers) {
    parts_.copies.mark(lost.sample, Past::came);  // or as good as: nobody shall wait for it here
    parts_.serving.answer(lost.sample);
    const uint32_t keeper = parts_.keepers.keeper_of(lost.sample);
    if (keeper != kNoOwner && keeper != parts_.desk.settings.rank)
      parts_.desk.act(action::TellUnread{keeper, lost.sample});
  }
  std::vector<BatchPlace> places = parts_.window.take_waiters(lost.sample);
  places.insert(places.begin(), place);
  for (const BatchPlace& bad : places)
    parts_.window.mark_bad(bad, lost.end, lost.tries, parts_.desk.now - lost.first_try);
}

void Reads::leave_out(BatchPlace place) {
  const uint64_t sample = parts_.window.at(place).sample;
  if (parts_.window.at(place).detour == BatchWindow::Detour::own_copy)
    return parts_.window.leave_empty(place);
  parts_.copies.set(sample, OnItsWay::no);
  parts_.window.leave_empty(place);
  wake_waiters(sample);
}

void Reads::wake_waiters(uint64_t sample) {
  parts_.serving.answer(sample);
  for (const BatchPlace& place : parts_.window.take_waiters(sample)) look_for(place);
}

void Reads::placed(const event::Placed& e) {
  const bool ok = parts_.keeping.placed(e);
  // A second copy that failed says nothing about the first, which is still on its way.
  const bool second =
      parts_.desk.is_owner(e.sample) && parts_.desk.plan->placement().backing(e.sample) == e.tier;
  if (!ok && second) return;
  parts_.pushes.answer_all(e.sample, ok ? PushEnd::kept : PushEnd::refused);
  if (parts_.copies.on_its_way(e.sample) == OnItsWay::placing) {
    parts_.copies.set(e.sample, OnItsWay::no);
    wake_waiters(e.sample);
  } else if (ok) {
    parts_.serving.answer(e.sample);  // a peer was faster than this rank's own read
  }
}

void Reads::lose_tier(uint32_t tier) {
  parts_.keeping.lose_tier(tier);
  // Nothing comes from it any more. A hedge that was on its way besides a copy is now the read that
  // all others wait for.
  for (uint32_t slot = 0; slot < parts_.flights.size(); ++slot)
    if (parts_.flights[slot].active && parts_.flights[slot].from == tier_origin(tier))
      lose_copy(parts_.flights.cancel(slot), ReadEnd::missing);
  for (const BatchPlace& place : parts_.paths.take_all(tier_origin(tier))) {
    parts_.choice.leave_line(place);
    look_for(place);
  }
}

void Reads::seek(const event::Seek& to) {
  parts_.flights.cancel_all();
  parts_.making.cancel_all();
  parts_.first_reads.forget();
  parts_.serving.forget();
  parts_.copies.forget_arriving();
  parts_.window.close_all();
  parts_.paths.clear();
  parts_.list.seek(to);
  for (const BatchPlace& place : parts_.window.unfilled_of_fetches()) look_for(place);
}

void Reads::hedge(uint32_t slot, BatchPlace place) {
  const Flight& late = parts_.flights[slot];
  Origin from = kSource;
  if (late.is_from(Origin::Kind::tier)) {
    const uint32_t others = parts_.copies.tiers_of(late.sample) & ~(1u << late.from.number);
    if (others != 0) from = tier_origin(static_cast<uint32_t>(std::countr_zero(others)));
  }
  if (!late.has_place()) parts_.window.drop_first_waiter(late.sample);
  parts_.flights.hedge(slot, from, place);
}

void Reads::leave_to_rival(const Flight& flight) {
  const Flight& rival = parts_.flights.part(flight);
  // A read ahead has no place: the bytes reach it through the tier.
  if (!rival.has_place() && flight.has_place()) wait_at_place_of(flight);
}

void Reads::end_rival(const Flight& flight) {
  if (!flight.is_hedged()) return;
  const Flight& rival = parts_.flights.cancel(flight.rival);
  if (!flight.has_place() && rival.has_place()) wait_at_place_of(rival);
}

// The place of a read that is over waits for another read of the sample, which has none.
void Reads::wait_at_place_of(const Flight& flight) {
  parts_.window.at(flight.place).state = BatchWindow::State::waiting;
  parts_.window.wait_for(flight.sample, flight.place);
}

void Reads::give_up_peer_read(uint32_t slot) {
  const Flight& flight = parts_.flights.cancel(slot);
  if (flight.is_hedged())
    leave_to_rival(flight);
  else
    read_source_next(flight.place);
}

void Reads::leave_peer(uint32_t rank) {
  std::vector<BatchPlace> places = parts_.paths.take_all(peer_origin(rank));
  for (const BatchPlace& place : places) parts_.choice.leave_line(place);
  for (uint32_t slot = 0; slot < parts_.flights.size(); ++slot) {
    if (!parts_.flights[slot].active || parts_.flights[slot].from != peer_origin(rank)) continue;
    const Flight& flight = parts_.flights.cancel(slot);
    if (flight.is_hedged())
      leave_to_rival(flight);
    else
      places.push_back(flight.place);
  }
  std::sort(places.begin(), places.end());  // what is needed first is asked for first
  for (const BatchPlace& place : places) {
    BatchWindow::Entry& entry = parts_.window.at(place);
    entry.state = BatchWindow::State::waiting;
    parts_.copies.set(entry.sample, OnItsWay::no);
    look_for(place);
    // A tier may have got it from somebody else meanwhile: then nothing is on its way any more.
    if (parts_.copies.on_its_way(entry.sample) == OnItsWay::no) wake_waiters(entry.sample);
  }
}

}  // namespace foreload
