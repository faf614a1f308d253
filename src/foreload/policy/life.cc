// SPDX-License-Identifier: Apache-2.0
//
// The part of the policy that finds out which peers are dead, and goes on without them. Nobody
// waits longer than the peer timeout for the dead, however many there are.
#include <algorithm>
#include <map>

#include "foreload/policy/policy.h"

namespace foreload {

bool Policy::peers_owe_something() const {
  return !expected_.empty() || !pushes_.empty() || !parked_.empty() || !sending_.empty() ||
         !silent_.empty();
}

void Policy::heard_from(uint32_t rank) {
  peers_[rank].heard = now_;
  silent_.erase(rank);
}

bool Policy::is_silent(uint32_t rank, RunTime for_so_long) const {
  return silent_.contains(rank) && now_ - peers_[rank].doubted >= for_so_long;
}

void Policy::ping(uint32_t rank, Actions& actions) {
  Peer& peer = peers_[rank];
  if (now_ - peer.pinged < settings_.peer_timeout / 4 && silent_.contains(rank)) return;
  if (silent_.insert(rank).second) peer.doubted = now_;
  peer.pinged = now_;
  actions.push_back(action::Ping{rank});
}

// Somebody seems to be dead. Others may have died with it, or this rank may be cut off: they are
// found out now, not one after the other when each is needed.
void Policy::ping_all(Actions& actions) {
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    const Peer& peer = peers_[rank];
    // The memory of a neighbour is read whatever it does.
    const bool needed = is_neighbour_.empty() || !is_neighbour_[rank];
    if (rank != settings_.rank && peer.up && needed && peer.heard > RunTime{0} &&
        now_ - peer.heard >= settings_.peer_timeout / 4)
      ping(rank, actions);
  }
}

// What waited for peers for the peer timeout, and waits for a silent one now: the source has it.
void Policy::give_up_waiting(Actions& actions) {
  const RunTime a_moment = settings_.peer_timeout / 16;
  for (uint32_t slot = 0; slot < requests_.size(); ++slot) {
    const Request& request = requests_[slot];
    if (!request.active || request.from.kind != Origin::Kind::peer) continue;
    if (now_ - entry_of(request.place)->asked < settings_.peer_timeout) continue;
    const uint32_t rank = request.from.number;
    if (is_silent(rank, a_moment))
      give_up_peer_read(slot, now_, actions);
    else if (now_ - std::max(peers_[rank].heard, request.begin) >= a_moment)
      ping(rank, actions);
  }
}

void Policy::look_after_peers(Actions& actions) {
  // Since when each peer owes something.
  std::map<uint32_t, RunTime> owed;
  auto owes = [&owed](uint32_t rank, RunTime since) {
    const auto [entry, is_new] = owed.try_emplace(rank, since);
    if (!is_new) entry->second = std::min(entry->second, since);
  };
  for (const Request& request : requests_)
    if (request.active && request.from.kind == Origin::Kind::peer)
      owes(request.from.number, request.begin);
  std::vector<uint64_t> late;
  for (const auto& [sample, expected] : expected_) {
    owes(expected.from, expected.since);
    if (now_ - expected.since >= settings_.push_patience) late.push_back(sample);
  }
  // Whoever lives answers within its patience: what takes longer was lost on the way.
  const RunTime lost_after = settings_.push_patience + settings_.peer_timeout;
  for (auto push = pushes_.begin(); push != pushes_.end();) {
    const auto next = std::next(push);
    if (push->second.sent) {
      owes(push->second.rank, push->second.since);
      if (now_ - push->second.since >= lost_after) end_push(push, false, actions);
    }
    push = next;
  }
  for (uint32_t slot = 0; slot < requests_.size(); ++slot) {
    const Request& request = requests_[slot];
    if (request.active && request.from.kind == Origin::Kind::peer &&
        now_ - request.begin >= lost_after)
      give_up_peer_read(slot, now_, actions);
  }
  for (const uint64_t sample : late) {
    peers_[expected_.at(sample).from].late = true;
    end_expecting(sample, actions);
  }
  for (const auto& [rank, sending] : sending_)
    if (peers_[rank].up) owes(rank, sending.since);  // to take what it asked for
  for (const uint32_t rank : silent_) owes(rank, peers_[rank].doubted);
  for (auto asks = parked_.begin(); asks != parked_.end();) {
    std::vector<Ask>& waiting = asks->second;
    while (!waiting.empty() && now_ - waiting.front().since >= settings_.push_patience) {
      if (on_its_way_[asks->first] == OnItsWay::no) peers_[settings_.rank].late = true;
      refuse(waiting.front(), actions);
      waiting.erase(waiting.begin());
    }
    asks = waiting.empty() ? parked_.erase(asks) : std::next(asks);
  }
  bool doubts = false;
  for (const auto& [rank, since] : owed) {
    const RunTime silent = now_ - std::max(peers_[rank].heard, since);
    if (silent >= settings_.peer_timeout) {
      lose_peer(rank, /*in_order=*/false, actions);
    } else if (silent >= settings_.peer_timeout / 4) {
      doubts = doubts || is_silent(rank, settings_.peer_timeout / 8);
      ping(rank, actions);
    }
  }
  if (doubts) ping_all(actions);
  give_up_waiting(actions);
}

void Policy::give_up_peer_read(uint32_t slot, RunTime now, Actions& actions) {
  const Request request = requests_[slot];
  cancel(slot, now, actions);
  if (request.rival != kAlone) return leave_to_rival(request);
  entry_of(request.place)->state = State::waiting;
  for_source_.push_front(request.place);
}

void Policy::handle(const event::PeerDown& e, RunTime, Actions& actions) {
  if (with_peers()) lose_peer(e.rank, e.in_order, actions);
}

void Policy::lose_peer(uint32_t rank, bool in_order, Actions& actions) {
  Peer& peer = peers_[rank];
  if (!peer.up) return;
  peer.up = false;
  silent_.erase(rank);
  ++totals_.dead_peers;
  actions.push_back(action::DropPeer{rank, in_order});
  take_over_replicas();
  drop_asks_of(rank);
  peer.pushes.clear();
  for (auto push = pushes_.begin(); push != pushes_.end();) {
    const auto next = std::next(push);
    if (push->second.rank == rank) end_push(push, false, actions);
    push = next;
  }
  std::vector<uint64_t> never;
  for (const auto& [sample, expected] : expected_)
    if (expected.from == rank) never.push_back(sample);
  for (const uint64_t sample : never) end_expecting(sample, actions);
  // What it was asked for comes from somewhere else.
  std::vector<BatchPlace> places(for_peer_[rank].begin(), for_peer_[rank].end());
  for_peer_[rank].clear();
  peers_wanted_.erase(rank);
  for (uint32_t slot = 0; slot < requests_.size(); ++slot) {
    const Request request = requests_[slot];
    if (!request.active || request.from != Origin{Origin::Kind::peer, rank}) continue;
    cancel(slot, now_, actions);
    if (request.rival != kAlone)
      leave_to_rival(request);
    else
      places.push_back(request.place);
  }
  std::sort(places.begin(), places.end());  // what is needed first is asked for first
  for (const BatchPlace& place : places) {
    Entry& entry = *entry_of(place);
    entry.state = State::waiting;
    on_its_way_[entry.sample] = OnItsWay::no;
    queue(place);
    // A tier may have got it from somebody else meanwhile: then nothing is on its way any more.
    if (on_its_way_[entry.sample] == OnItsWay::no) wake_waiters(entry.sample, actions);
  }
}

void Policy::drop_asks_of(uint32_t rank) {
  for (auto asks = parked_.begin(); asks != parked_.end();) {
    std::erase_if(asks->second, [rank](const Ask& ask) { return ask.rank == rank; });
    asks = asks->second.empty() ? parked_.erase(asks) : std::next(asks);
  }
  std::erase_if(to_serve_, [rank](const ToServe& wanted) { return wanted.ask.rank == rank; });
}

}  // namespace foreload
