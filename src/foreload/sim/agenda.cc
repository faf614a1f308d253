// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/agenda.h"

#include <algorithm>

namespace foreload::sim {

uint32_t Agenda::add() {
  if (!free_.empty()) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  times_.push_back(kNever);
  turns_.push_back(0);
  places_.push_back(kNowhere);
  return static_cast<uint32_t>(times_.size() - 1);
}

void Agenda::set(uint32_t slot, Time at) {
  const uint32_t place = places_[slot];
  if (at == kNever) {
    if (place != kNowhere) take_out(place);
    times_[slot] = kNever;
    return;
  }
  at = std::max(at, now_);
  turns_[slot] = turn_++;
  if (place == kNowhere) {
    times_[slot] = at;
    heap_.push_back(slot);
    places_[slot] = static_cast<uint32_t>(heap_.size() - 1);
    move_up(places_[slot]);
    return;
  }
  const Time old = times_[slot];
  times_[slot] = at;
  if (at < old)
    move_up(place);
  else
    move_down(place);  // also for the same time: its turn is later now
}

uint32_t Agenda::next() {
  const uint32_t slot = heap_.front();
  now_ = times_[slot];
  take_out(0);
  times_[slot] = kNever;
  return slot;
}

void Agenda::take_out(uint32_t place) {
  places_[heap_[place]] = kNowhere;
  const uint32_t last = heap_.back();
  heap_.pop_back();
  if (place == heap_.size()) return;
  put(place, last);
  move_up(place);
  move_down(places_[last]);
}

void Agenda::move_up(uint32_t place) {
  const uint32_t slot = heap_[place];
  while (place > 0) {
    const uint32_t parent = (place - 1) / 2;
    if (!before(slot, heap_[parent])) break;
    put(place, heap_[parent]);
    place = parent;
  }
  put(place, slot);
}

void Agenda::move_down(uint32_t place) {
  const uint32_t slot = heap_[place];
  const auto size = static_cast<uint32_t>(heap_.size());
  while (true) {
    uint32_t child = 2 * place + 1;
    if (child >= size) break;
    if (child + 1 < size && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], slot)) break;
    put(place, heap_[child]);
    place = child;
  }
  put(place, slot);
}

}  // namespace foreload::sim
