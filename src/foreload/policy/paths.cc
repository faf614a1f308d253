// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/paths.h"

#include <utility>

namespace foreload {

Paths::Paths(const Desk& desk) : outlook_(desk) {
  const PolicySettings& settings = desk.settings;
  paths_.push_back({Limiter(settings.source_limiter), {}, {}});
  paths_.push_back({Limiter({256, 256, 256}), {}, {}});  // memory: nothing to find out
  for (uint32_t tier = 0; tier < desk.tiers(); ++tier)
    paths_.push_back({Limiter(tier < settings.tier_limiters.size() ? settings.tier_limiters[tier]
                                                                   : Limiter::Settings{}),
                      {},
                      {}});
  if (!desk.with_peers) return;
  peer_limiters_.assign(desk.plan->job().ranks, Limiter(settings.peer_limiter));
  peer_lines_.resize(desk.plan->job().ranks);
}

BatchPlace Line::take() {
  const bool fetch = ordered_.empty() || (fetch_is_next_ && !fetches_.empty());
  fetch_is_next_ = !fetch;
  std::deque<BatchPlace>& line = fetch ? fetches_ : ordered_;
  const BatchPlace first = line.front();
  line.pop_front();
  return first;
}

void Paths::line_up(Origin path, BatchPlace place) {
  if (!is_peer(path)) return of(path).line.push_back(place);
  peer_lines_[path.number].push_back(place);
  wanted_peers_.insert(path.number);
}

BatchPlace Paths::take(Origin path) {
  if (!is_peer(path)) return of(path).line.take();
  Fifo<BatchPlace>& line = peer_lines_[path.number];
  const BatchPlace first = line.front();
  line.pop_front();
  if (line.empty()) wanted_peers_.erase(path.number);
  return first;
}

std::vector<BatchPlace> Paths::take_all(Origin path) {
  std::vector<BatchPlace> places;
  while (wanted(path)) places.push_back(take(path));
  return places;
}

void Paths::clear() {
  for (Path& path : paths_) path.line.clear();
  for (auto& line : peer_lines_) line.clear();
  outlook_.clear_lines();
  wanted_peers_.clear();
}

}  // namespace foreload
