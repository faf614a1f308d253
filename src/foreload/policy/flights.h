// SPDX-License-Identifier: Apache-2.0
//
// Reads in flight, which of them are rivals for one sample (a read and its hedge), how long each
// may take, and those that failed and are tried again later.
//
// For one thread.
#pragma once

#include <compare>
#include <cstdint>
#include <set>
#include <vector>

#include "foreload/policy/paths.h"
#include "foreload/policy/window.h"

namespace foreload {

inline constexpr RunTime kNever = RunTime::max();

// A read in flight. Its id is its slot and a generation, so that late answers are recognised.
struct Flight {
  static constexpr uint32_t kAlone = UINT32_MAX;

  bool has_place() const { return place.batch != kNoBatch; }
  bool is_hedged() const { return rival != kAlone; }  // or is the hedge
  bool is_from(Origin::Kind kind) const { return from.kind == kind; }

  uint32_t generation = 0;
  bool active = false;
  bool hedge = false;
  Origin from;
  uint32_t way = 0;  // of the outlook
  uint64_t sample = 0;
  BatchPlace place;
  RunTime begin{0};
  uint32_t rival = kAlone;   // slot of the other read for the same sample, if it is hedged
  bool beside_peer = false;  // a peer is asked for it, too, and this read is the hedge
};

class Flights {
 public:
  Flights(Desk& desk, Paths& paths, BatchWindow& window)
      : desk_(desk), paths_(paths), window_(window), late_in_a_row_(desk.tiers()) {}

  // Its slot. `waiting`: others wait for the path behind it.
  uint32_t start(Origin from, uint64_t sample, BatchPlace place, bool waiting, bool hedge = false);
  // Ends the read that is told to have ended; null if it is not known any more. What it was can be
  // looked at until another one starts.
  const Flight* end(const event::ReadEnded& e);
  // Ends a read whose answer does not count any more; likewise.
  const Flight& cancel(uint32_t slot);
  void cancel_all();

  // Slots in use are below size().
  uint32_t size() const { return static_cast<uint32_t>(flights_.size()); }
  const Flight& operator[](uint32_t slot) const { return flights_[slot]; }
  bool any() const { return flights_.size() > free_.size(); }
  // Bytes of reads without a place.
  uint64_t ahead_bytes() const { return ahead_bytes_; }

  // It has taken far longer than usual, and hedged bytes stay below their share.
  bool is_late(const Flight& flight) const;
  void hedge(uint32_t slot, Origin from, BatchPlace place);
  // The other read of a hedged sample goes on alone.
  const Flight& part(const Flight& ended);

  // A tier's read was late; whether that was one too many in a row.
  bool count_late(uint32_t tier);

  void try_again(RunTime at, BatchPlace place) { retries_.insert({at, place}); }
  RunTime next_retry() const;  // kNever: none
  // Those whose time has come line up.
  void retry_due();

 private:
  struct Retry {
    RunTime at;
    BatchPlace place;
    friend auto operator<=>(const Retry&, const Retry&) = default;
  };
  uint64_t id_of(uint32_t slot) const { return uint64_t{flights_[slot].generation} << 32 | slot; }
  void free(uint32_t slot);

  Desk& desk_;
  Paths& paths_;
  BatchWindow& window_;
  std::vector<Flight> flights_;
  std::vector<uint32_t> free_;
  uint64_t ahead_bytes_ = 0;
  uint64_t source_bytes_ = 0;            // read so far
  std::vector<unsigned> late_in_a_row_;  // by tier
  std::set<Retry> retries_;
};

}  // namespace foreload
