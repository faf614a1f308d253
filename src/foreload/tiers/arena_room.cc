// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/arena_room.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

namespace foreload {

ArenaRoom::ArenaRoom(std::byte* arena, uint64_t unit, uint32_t units)
    : arena_(arena), unit_(unit), units_(units), free_(units) {
  ends_.reset(static_cast<uint64_t*>(std::calloc(units / 64 + 1, sizeof(uint64_t))));
  if (!ends_) throw std::bad_alloc();
  heads_.fill(kNone);
}

unsigned ArenaRoom::class_of(uint32_t count) {
  if (count < kSteps) return count;
  const auto power = static_cast<unsigned>(std::bit_width(count)) - 1;
  return (power - 2) * kSteps + (count >> (power - 3)) % kSteps;
}

ArenaRoom::Free ArenaRoom::load(uint32_t at) const {
  Free run;
  std::memcpy(&run, arena_ + at * unit_, sizeof run);
  return run;
}

void ArenaRoom::store(uint32_t at, const Free& run) {
  std::memcpy(arena_ + at * unit_, &run, sizeof run);
}

uint32_t ArenaRoom::count_before(uint32_t at) const {
  uint32_t count = 0;
  std::memcpy(&count, arena_ + at * unit_ - sizeof count, sizeof count);
  return count;
}

void ArenaRoom::mark(Run run, bool is_free) {
  for (const uint32_t unit : {run.first, run.first + run.count - 1}) {
    const uint64_t bit = uint64_t{1} << unit % 64;
    ends_[unit / 64] = is_free ? ends_[unit / 64] | bit : ends_[unit / 64] & ~bit;
  }
}

void ArenaRoom::insert(Run run) {
  const unsigned number = class_of(run.count);
  const uint32_t head = heads_[number];
  store(run.first, {run.count, kNone, head});
  std::memcpy(arena_ + (uint64_t{run.first} + run.count) * unit_ - sizeof run.count, &run.count,
              sizeof run.count);
  if (head != kNone) {
    Free next = load(head);
    next.previous = run.first;
    store(head, next);
  }
  heads_[number] = run.first;
  filled_[number / 64] |= uint64_t{1} << number % 64;
  mark(run, true);
  free_ += run.count;
}

ArenaRoom::Run ArenaRoom::remove(uint32_t at) {
  const Free run = load(at);
  const unsigned number = class_of(run.count);
  if (run.next != kNone) {
    Free next = load(run.next);
    next.previous = run.previous;
    store(run.next, next);
  }
  if (run.previous != kNone) {
    Free previous = load(run.previous);
    previous.next = run.next;
    store(run.previous, previous);
  } else {
    heads_[number] = run.next;
    if (run.next == kNone) filled_[number / 64] &= ~(uint64_t{1} << number % 64);
  }
  mark({at, run.count}, false);
  free_ -= run.count;
  return {at, run.count};
}

unsigned ArenaRoom::class_from(unsigned number) const {
  for (unsigned word = number / 64; word < filled_.size(); ++word) {
    uint64_t bits = filled_[word];
    if (word == number / 64) bits &= ~uint64_t{0} << number % 64;
    if (bits != 0) return word * 64 + static_cast<unsigned>(std::countr_zero(bits));
  }
  return kClasses;
}

unsigned ArenaRoom::largest_class() const {
  size_t word = filled_.size() - 1;
  while (filled_[word] == 0) --word;
  return static_cast<unsigned>(word * 64 + 63) -
         static_cast<unsigned>(std::countl_zero(filled_[word]));
}

bool ArenaRoom::take(uint32_t units, std::vector<Run>& runs) {
  if (units > free_) return false;
  while (units > 0) {
    runs.push_back(take_run(units));
    units -= runs.back().count;
  }
  return true;
}

ArenaRoom::Run ArenaRoom::take_run(uint32_t units) {
  // Runs of the request's own class may be large enough, those of classes above are.
  unsigned number = class_of(units);
  if (heads_[number] == kNone || load(heads_[number]).count < units)
    number = class_from(number + 1);
  if (number == kClasses) {
    const uint32_t unused = units_ - unused_;
    number = free_ == unused ? kClasses : largest_class();
    if (unused >= units || number == kClasses || load(heads_[number]).count < unused) {
      const Run run{unused_, std::min(unused, units)};
      unused_ += run.count;
      free_ -= run.count;
      return run;
    }
  }
  Run run = remove(heads_[number]);
  if (run.count > units) {
    insert({run.first + units, run.count - units});
    run.count = units;
  }
  return run;
}

void ArenaRoom::give_back(Run run) {
  // A neighbour that is marked is the end of a free run, since this one was not free.
  if (run.first > 0 && marked(run.first - 1)) {
    const uint32_t count = count_before(run.first);
    run = {remove(run.first - count).first, run.count + count};
  }
  const uint64_t end = uint64_t{run.first} + run.count;
  if (end == unused_) {
    unused_ = run.first;
    free_ += run.count;
    return;
  }
  if (end < units_ && marked(static_cast<uint32_t>(end)))
    run.count += remove(static_cast<uint32_t>(end)).count;
  insert(run);
}

}  // namespace foreload
