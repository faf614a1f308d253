// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/pushes.h"

#include <algorithm>

namespace foreload {

void Pushes::push(uint64_t request, uint64_t sample, BatchPlace place) {
  const uint32_t keeper = keepers_.keeper_of(sample);
  if (keeper == kNoOwner || keeper == desk_.settings.rank) return;
  const uint64_t number = next_++;
  pushes_[number] = {keeper, sample, desk_.now};
  bytes_ += desk_.bytes(sample);
  desk_.act(action::HoldPush{number, request, sample, place});
  peers_[keeper].waiting.push_back(number);
  send(keeper);
}

void Pushes::send(uint32_t rank) {
  Peer& peer = peers_[rank];
  const uint64_t room = desk_.settings.push_bytes / peers_.size();
  while (!peer.waiting.empty()) {
    Push& push = pushes_.at(peer.waiting.front());
    if (peer.bytes > 0 && peer.bytes + desk_.bytes(push.sample) > room) return;
    push.sent = true;
    flow_.begin(desk_.now);
    push.since = desk_.now;
    peer.bytes += charge(push.sample);
    desk_.act(action::SendPush{peer.waiting.front(), rank, push.sample});
    peer.waiting.pop_front();
  }
}

void Pushes::answered(const event::PushAnswered& e) {
  const auto push = pushes_.find(e.push);
  if (push == pushes_.end()) return;
  const uint32_t rank = push->second.rank;
  lives_.heard(rank);
  // An heir may have refused because it did not know yet that it is one.
  const bool of_the_living = lives_.up(desk_.owner(push->second.sample).rank);
  if (e.end == PushEnd::refused && of_the_living) keepers_.refused(push->second.sample);
  end(push, e.end == PushEnd::kept);
  send(rank);
}

void Pushes::end(Numbered::iterator push, bool kept) {
  const auto& [number, what] = *push;
  bytes_ -= desk_.bytes(what.sample);
  if (what.sent) {
    peers_[what.rank].bytes -= charge(what.sample);
    flow_.end(desk_.now, kept ? static_cast<double>(desk_.bytes(what.sample)) : 0);
  }
  ++(kept ? desk_.totals.pushed : desk_.totals.push_failed);
  desk_.act(action::EndPush{number});
  pushes_.erase(push);
}

void Pushes::drop_peer(uint32_t rank) {
  peers_[rank].waiting.clear();
  for (auto push = pushes_.begin(); push != pushes_.end();) {
    const auto next = std::next(push);
    if (push->second.rank == rank) end(push, false);
    push = next;
  }
}

void Pushes::visit_sent(RunTime lost_after,
                        const std::function<void(uint32_t rank, RunTime since)>& owes) {
  for (auto push = pushes_.begin(); push != pushes_.end();) {
    const auto next = std::next(push);
    if (push->second.sent) {
      owes(push->second.rank, push->second.since);
      if (desk_.now - push->second.since >= lost_after) end(push, false);
    }
    push = next;
  }
}

bool Pushes::take_in(const event::PeerPush& e) {
  std::vector<event::PeerPush>& pushes = taken_in_[e.sample];
  pushes.push_back(e);
  return pushes.size() == 1;
}

void Pushes::answer(const event::PeerPush& e, PushEnd end) {
  desk_.act(action::AnswerPush{e.rank, e.push, end});
}

void Pushes::answer_all(uint64_t sample, PushEnd end) {
  const auto found = taken_in_.find(sample);
  if (found == taken_in_.end()) return;
  for (const event::PeerPush& push : found->second)
    if (lives_.up(push.rank)) answer(push, end);
  taken_in_.erase(found);
}

}  // namespace foreload
