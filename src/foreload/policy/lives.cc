// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/lives.h"

namespace foreload {

Lives::Lives(Desk& desk) : desk_(desk), peers_(desk.with_peers ? desk.plan->job().ranks : 0) {
  if (!desk.with_peers || desk.settings.neighbours.empty()) return;
  neighbour_.resize(peers_.size());
  for (const uint32_t rank : desk.settings.neighbours) neighbour_[rank] = true;
}

void Lives::heard(uint32_t rank) {
  peers_[rank].heard = desk_.now;
  silent_.erase(rank);
}

bool Lives::is_silent(uint32_t rank, RunTime for_so_long) const {
  return silent_.contains(rank) && desk_.now - peers_[rank].doubted >= for_so_long;
}

void Lives::ping(uint32_t rank) {
  Peer& peer = peers_[rank];
  if (desk_.now - peer.pinged < desk_.settings.peer_timeout / 4 && silent_.contains(rank)) return;
  if (silent_.insert(rank).second) peer.doubted = desk_.now;
  peer.pinged = desk_.now;
  desk_.act(action::Ping{rank});
}

void Lives::ping_all() {
  for (uint32_t rank = 0; rank < ranks(); ++rank) {
    const Peer& peer = peers_[rank];
    // The memory of a neighbour is read whatever it does.
    if (rank != desk_.settings.rank && peer.up && !is_neighbour(rank) && peer.heard > RunTime{0} &&
        desk_.now - peer.heard >= desk_.settings.peer_timeout / 4)
      ping(rank);
  }
}

bool Lives::lose(uint32_t rank, bool in_order) {
  if (!peers_[rank].up) return false;
  peers_[rank].up = false;
  silent_.erase(rank);
  ++desk_.totals.dead_peers;
  desk_.act(action::DropPeer{rank, in_order});
  return true;
}

}  // namespace foreload
