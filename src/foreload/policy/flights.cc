// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/flights.h"

#include <algorithm>
#include <chrono>

namespace foreload {

uint32_t Flights::start(Origin from, uint64_t sample, BatchPlace place, bool waiting, bool hedge) {
  if (free_.empty()) {
    free_.push_back(size());
    flights_.emplace_back();
  }
  const uint32_t slot = free_.back();
  free_.pop_back();
  Flight& flight = flights_[slot];
  ++flight.generation;
  flight.active = true;
  flight.hedge = hedge;
  flight.from = from;
  flight.sample = sample;
  flight.place = place;
  flight.begin = desk_.now;
  flight.rival = Flight::kAlone;
  flight.beside_peer = false;
  paths_.limiter(from).start(desk_.now, waiting);
  flight.way = paths_.outlook().way(from, sample);
  paths_.outlook().begin(flight.way);
  bool detour = false;
  if (place.batch == kNoBatch) {
    ahead_bytes_ += desk_.memory_of(sample);
  } else {
    BatchWindow::Entry& entry = window_.at(place);
    detour = from.kind == Origin::Kind::source && entry.is_detour();
    entry.state = BatchWindow::State::reading;
    if (entry.tries == 0) entry.first_try = desk_.now;
  }
  desk_.act(
      action::Read{id_of(slot), sample, place, from, desk_.settings.read_deadline, hedge, detour});
  return slot;
}

const Flight* Flights::end(const event::ReadEnded& e) {
  const auto slot = static_cast<uint32_t>(e.request);
  if (slot >= size() || !flights_[slot].active || id_of(slot) != e.request) return nullptr;
  free(slot);
  const Flight& flight = flights_[slot];
  const uint64_t bytes = flight.is_from(Origin::Kind::source) ? desk_.source_bytes(flight.sample)
                                                              : desk_.bytes(flight.sample);
  Limiter& limiter = paths_.limiter(flight.from);
  const uint64_t brought = e.end == ReadEnd::ok ? bytes : 0;
  limiter.finish(desk_.now, brought);
  paths_.outlook().end(flight.way, brought, desk_.now - flight.begin);
  if (e.end == ReadEnd::throttled) limiter.throttled(desk_.now);
  if (e.end == ReadEnd::ok) {
    paths_.pace(flight.from).add(desk_.now - flight.begin);
    if (flight.is_from(Origin::Kind::tier)) late_in_a_row_[flight.from.number] = 0;
    if (flight.is_from(Origin::Kind::source)) source_bytes_ += bytes;
  }
  return &flight;
}

void Flights::free(uint32_t slot) {
  Flight& flight = flights_[slot];
  flight.active = false;
  free_.push_back(slot);
  if (!flight.has_place()) ahead_bytes_ -= desk_.memory_of(flight.sample);
}

const Flight& Flights::cancel(uint32_t slot) {
  desk_.act(action::Cancel{id_of(slot)});
  paths_.limiter(flights_[slot].from).finish(desk_.now, 0);
  paths_.outlook().end(flights_[slot].way, 0, RunTime{0});
  free(slot);
  return flights_[slot];
}

void Flights::cancel_all() {
  for (uint32_t slot = 0; slot < size(); ++slot)
    if (flights_[slot].active) cancel(slot);
  retries_.clear();
}

bool Flights::is_late(const Flight& flight) const {
  const RunTime usual = paths_.pace(flight.from).usual();
  if (usual == RunTime{0}) return false;
  const auto long_for_this_path = std::chrono::duration_cast<RunTime>(
      desk_.settings.hedge_factor * std::chrono::duration<double, std::nano>(usual));
  if (desk_.now - flight.begin < std::max(desk_.settings.hedge_after, long_for_this_path))
    return false;
  return static_cast<double>(desk_.totals.hedged_bytes + desk_.source_bytes(flight.sample)) <=
         desk_.settings.hedge_share * static_cast<double>(source_bytes_);
}

void Flights::hedge(uint32_t slot, Origin from, BatchPlace place) {
  const uint64_t sample = flights_[slot].sample;
  ++desk_.totals.hedged;
  desk_.totals.hedged_bytes += desk_.source_bytes(sample);
  const uint32_t rival = start(from, sample, place, paths_.wanted(kSource), true);
  flights_[rival].rival = slot;
  flights_[rival].beside_peer = flights_[slot].is_from(Origin::Kind::peer);
  flights_[slot].rival = rival;
}

const Flight& Flights::part(const Flight& ended) {
  Flight& rival = flights_[ended.rival];
  rival.rival = Flight::kAlone;
  rival.beside_peer = false;
  return rival;
}

bool Flights::count_late(uint32_t tier) {
  ++desk_.totals.late_tier_reads;
  return ++late_in_a_row_[tier] >= desk_.settings.tier_patience;
}

RunTime Flights::next_retry() const {
  return retries_.empty() ? kNever : retries_.begin()->at;
}

void Flights::retry_due() {
  while (!retries_.empty() && retries_.begin()->at <= desk_.now) {
    paths_.go_first(retries_.begin()->place);
    retries_.erase(retries_.begin());
  }
}

}  // namespace foreload
