// SPDX-License-Identifier: Apache-2.0
//
// The ways to a sample: the source, each tier, each peer, the memory of neighbours. For each one
// how many reads it has room for, how long one usually takes, and which places wait for it.
//
// For one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <vector>

#include "foreload/policy/desk.h"
#include "foreload/policy/fifo.h"
#include "foreload/policy/limiter.h"
#include "foreload/policy/outlook.h"
#include "foreload/policy/pace.h"

namespace foreload {

inline constexpr Origin kSource{};
inline constexpr Origin kNeighbours{Origin::Kind::neighbour, kNoOwner};
inline Origin tier_origin(uint32_t tier) {
  return {Origin::Kind::tier, tier};
}
inline Origin peer_origin(uint32_t rank) {
  return {Origin::Kind::peer, rank};
}

// Places that wait: of ordered batches, and of fetches. While both wait they take turns.
class Line {
 public:
  bool empty() const { return ordered_.empty() && fetches_.empty(); }
  uint64_t size() const { return ordered_.size() + fetches_.size(); }
  void push_back(BatchPlace place) { of(place).push_back(place); }
  void push_front(BatchPlace place) { of(place).push_front(place); }
  // REQUIRES: not empty.
  BatchPlace take();
  void clear() {
    ordered_.clear();
    fetches_.clear();
  }

 private:
  std::deque<BatchPlace>& of(BatchPlace place) {
    return is_fetch(place.batch) ? fetches_ : ordered_;
  }

  std::deque<BatchPlace> ordered_;
  std::deque<BatchPlace> fetches_;
  bool fetch_is_next_ = true;
};

class Paths {
 public:
  explicit Paths(const Desk& desk);

  Limiter& limiter(Origin path) {
    return is_peer(path) ? peer_limiters_[path.number] : of(path).limiter;
  }
  const Limiter& limiter(Origin path) const {
    return is_peer(path) ? peer_limiters_[path.number] : of(path).limiter;
  }
  Outlook& outlook() { return outlook_; }
  const Outlook& outlook() const { return outlook_; }
  Pace& pace(Origin path) { return is_peer(path) ? peer_pace_ : of(path).pace; }

  // Places that wait for a path, in line. What has lost time already goes to the front of the
  // source's line.
  void line_up(Origin path, BatchPlace place);
  void go_first(BatchPlace place) { of(kSource).line.push_front(place); }
  bool wanted(Origin path) const {  // somebody waits
    return is_peer(path) ? !peer_lines_[path.number].empty() : !of(path).line.empty();
  }
  uint64_t waiting(Origin path) const { return of(path).line.size(); }  // REQUIRES: not a peer
  const std::set<uint32_t>& wanted_peers() const { return wanted_peers_; }
  bool ready(Origin path) const { return wanted(path) && limiter(path).has_room(); }
  // The first in line. REQUIRES: wanted(path).
  BatchPlace take(Origin path);
  // All of them; nobody waits any more.
  std::vector<BatchPlace> take_all(Origin path);
  // A seek.
  void clear();

 private:
  struct Path {
    Limiter limiter;
    Pace pace;
    Line line;
  };
  static bool is_peer(Origin path) { return path.kind == Origin::Kind::peer; }
  static size_t number_of(Origin path) {
    if (path.kind == Origin::Kind::tier) return 2 + path.number;
    return path.kind == Origin::Kind::neighbour ? 1 : 0;
  }
  Path& of(Origin path) { return paths_[number_of(path)]; }
  const Path& of(Origin path) const { return paths_[number_of(path)]; }

  Outlook outlook_;
  std::vector<Path> paths_;  // the source, neighbours, then each tier
  // Peers, by rank; empty without. There are many, most of them idle.
  std::vector<Limiter> peer_limiters_;
  std::vector<Fifo<BatchPlace>> peer_lines_;
  Pace peer_pace_;  // of all together
  std::set<uint32_t> wanted_peers_;
};

}  // namespace foreload
