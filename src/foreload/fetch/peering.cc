// SPDX-License-Identifier: Apache-2.0
//
// The engine's side that deals with peers: serves what they ask for, pushes to them, takes what
// they push.
#include <algorithm>
#include <utility>

#include "foreload/base/hash.h"
#include "foreload/fetch/engine.h"

namespace foreload {

void Engine::carry(action::Serve& a) {
  const uint64_t number = next_serving_++;
  Serving& serving = serving_[number];
  serving = {a.rank, a.request, a.sample, a.tier, nullptr};
  const uint64_t size = parts_.plan->sizes()[a.sample];
  auto slot = parts_.staging->take(std::span(&size, 1));
  if (!slot) return end_serving(number, {});
  serving.memory = std::move(*slot);
  lent_[a.tier].serves.push_back({begin_tier_job(a.tier, TierJob::serve, number), key_of(a.sample),
                                  size, 0, serving.memory->range(0), serving.memory});
}

void Engine::end_serving(uint64_t number, const TierAnswer& answer) {
  const auto found = serving_.find(number);
  const Serving& serving = found->second;
  if (answer.end == TierEnd::done) {
    parts_.peers->reply(serving.rank, serving.request, number,
                        {serving.memory->range(0), serving.memory,
                         parts_.index->sample_version(serving.sample), answer.checksum});
    return;  // the rest when it has left
  }
  const Serving done = std::move(found->second);
  serving_.erase(found);
  tell(event::Served{done.rank, done.request, done.sample, done.tier, false});
}

void Engine::handle(message::PeerSent& sent) {
  const auto found = serving_.find(sent.id);
  if (found == serving_.end()) return;
  const Serving done = std::move(found->second);
  serving_.erase(found);
  {
    std::lock_guard lock(mutex_);
    PeerStats& peer = stats_.peers[done.rank];
    ++peer.served_samples;
    peer.served_bytes += parts_.plan->sizes()[done.sample];
  }
  tell(event::Served{done.rank, done.request, done.sample, done.tier, true});
}

void Engine::carry(action::HoldPush& a) {
  const OpenBatch& batch = open_.at(a.place.batch);
  const std::span<const std::byte> bytes = batch.ranges[a.place.index];
  pushes_[a.push] = {bytes, batch.keeper_of(a.place.index), parts_.index->sample_version(a.sample),
                     0};
}

void Engine::carry(action::SendPush& a) {
  PeerLink::Payload& payload = pushes_.at(a.push);
  payload.checksum = checksum64(payload.bytes);
  parts_.peers->push(a.rank, a.push, a.sample, payload);
}

void Engine::carry(action::TellUnread& a) {
  parts_.peers->push(a.rank, kNoPush, a.sample, {});
}

void Engine::carry(action::PlacePushed& a) {
  const auto& [bytes, keeper] = pushed_.at({a.rank, a.push});
  place(a.tier, a.sample, bytes, keeper, true);
}

void Engine::carry(action::AnswerPush& a) {
  pushed_.erase({a.rank, a.push});
  parts_.peers->answer_push(a.rank, a.push, a.end);
}

void Engine::carry(action::DropPeer& a) {
  parts_.peers->drop(a.rank);
  // What a dead rank had in memory goes back to the system when the last that has it mapped lets
  // go.
  if (a.rank < parts_.neighbours.size()) parts_.neighbours[a.rank].reset();
  std::erase_if(pushed_, [&a](const auto& push) { return push.first.first == a.rank; });
  std::lock_guard lock(mutex_);
  stats_.dead_peers.push_back(a.rank);
  if (a.in_order) stats_.left_peers.push_back(a.rank);
  stats_.peers[a.rank].lost = true;
}

void Engine::read_neighbour(const action::Read& a, std::span<std::byte> into,
                            std::shared_ptr<const void> keeper) {
  NeighbourJob job{{}, a.request, key_of(a.sample), into, std::move(keeper)};
  for (uint32_t rank = 0; rank < parts_.neighbours.size(); ++rank) {
    const bool wanted = a.from.number == kNoOwner || a.from.number == rank;
    if (wanted && parts_.neighbours[rank])
      job.neighbours.emplace_back(rank, parts_.neighbours[rank]);
  }
  neighbour_reads_.push_back(std::move(job));
}

bool PeerStats::any() const {
  return lost || same_host_samples + samples + served_samples + missing + corrupt + given_up > 0;
}

void Engine::count_peer_read(const Pending& pending, ReadEnd end) {
  const bool in_place = pending.origin.kind == Origin::Kind::neighbour;
  if (pending.from == From::peer) --asked_;
  if (pending.origin.kind != Origin::Kind::peer && !in_place) return;
  if (pending.origin.number == kNoOwner) return;  // no neighbour had it
  const uint64_t size = parts_.plan->sizes()[pending.sample];
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - pending.begin).count();
  std::lock_guard lock(mutex_);
  PeerStats& peer = stats_.peers[pending.origin.number];
  if (!in_place) {
    peer.wait_seconds += took;
    peer.longest_wait = std::max(peer.longest_wait, took);
  }
  if (end == ReadEnd::ok) {
    ++(in_place ? peer.same_host_samples : peer.samples);
    (in_place ? peer.same_host_bytes : peer.bytes) += size;
  } else if (end == ReadEnd::deadline) {
    ++peer.given_up;
  } else if (!in_place) {  // in place it may come a little later, and is asked for then
    ++peer.missing;
  }
}

void Engine::handle(message::PeerMessage& message) {
  tell(event::PeerHeard{message.from});
  const uint64_t samples = parts_.plan->sizes().samples();
  if (const auto* request = std::get_if<wire::Request>(&message.message)) {
    if (request->sample >= samples) return parts_.peers->refuse(message.from, request->request);
    tell(event::PeerRequest{message.from, request->sample, request->request});
  } else if (const auto* reply = std::get_if<wire::Reply>(&message.message)) {
    const auto found = pending_.find(reply->request);
    if (found == pending_.end() || found->second.origin != Origin{Origin::Kind::peer, message.from})
      return;
    const bool ok = reply->status == wire::ReplyStatus::here && message.intact &&
                    reply->version == parts_.index->sample_version(found->second.sample);
    if (reply->status == wire::ReplyStatus::here && !message.intact) {
      std::lock_guard lock(mutex_);
      ++stats_.corrupt_copies;
      ++stats_.peers[message.from].corrupt;
    }
    end_read(reply->request, ok ? ReadEnd::ok : ReadEnd::missing);
  } else if (const auto* push = std::get_if<wire::Push>(&message.message)) {
    if (push->sample >= samples)
      return parts_.peers->answer_push(message.from, push->push, PushEnd::refused);
    if (push->push == kNoPush)
      return tell(event::PeerPush{message.from, push->sample, kNoPush, false});
    const bool good = message.intact && push->version == parts_.index->sample_version(push->sample);
    if (good) pushed_[{message.from, push->push}] = {message.bytes, std::move(message.keeper)};
    if (!message.intact) {
      std::lock_guard lock(mutex_);
      ++stats_.corrupt_copies;
      ++stats_.peers[message.from].corrupt;
    }
    tell(event::PeerPush{message.from, push->sample, push->push, good});
  } else if (const auto* answer = std::get_if<wire::PushAnswer>(&message.message)) {
    tell(event::PushAnswered{
        answer->push, answer->status == wire::PushStatus::kept ? PushEnd::kept : PushEnd::refused});
  } else if (const auto* cancel = std::get_if<wire::Cancel>(&message.message)) {
    tell(event::PeerCancel{message.from, cancel->request});
  } else if (const auto* ping = std::get_if<wire::Ping>(&message.message)) {
    parts_.peers->pong(message.from, ping->number);
  } else if (std::holds_alternative<wire::Goodbye>(message.message)) {
    tell(event::PeerDown{message.from, true});
  }
}

}  // namespace foreload
