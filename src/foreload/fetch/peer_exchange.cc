// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/peer_exchange.h"

#include <variant>

#include "foreload/base/hash.h"

namespace foreload {

void PeerExchange::carry(action::Serve& a) {
  const uint64_t number = next_serving_++;
  Serving& serving = serving_[number];
  serving = {a.rank, a.request, a.sample, a.tier, nullptr};
  const uint64_t size = parts_.plan->sizes()[a.sample];
  auto slot = parts_.staging->take(std::span(&size, 1));
  if (!slot) return end_serving(number, {});
  serving.memory = std::move(*slot);
  parts_.lent.ask(a.tier, LentTiers::Job::serve, number, a.sample,
                  {serving.memory->range(0), serving.memory});
}

void PeerExchange::end_serving(uint64_t number, const TierAnswer& answer) {
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
  parts_.run.tell(event::Served{done.rank, done.request, done.sample, done.tier, false});
}

void PeerExchange::handle(message::PeerSent& sent) {
  const auto found = serving_.find(sent.id);
  if (found == serving_.end()) return;
  const Serving done = std::move(found->second);
  serving_.erase(found);
  const uint64_t size = parts_.plan->sizes()[done.sample];
  parts_.counts.count([&](EngineStats& stats) {
    PeerStats& peer = stats.peers[done.rank];
    ++peer.served_samples;
    peer.served_bytes += size;
  });
  parts_.run.tell(event::Served{done.rank, done.request, done.sample, done.tier, true});
}

void PeerExchange::carry(action::HoldPush& a) {
  KeptBytes kept = parts_.batches.at(a.place);
  pushes_[a.push] = {kept.bytes, std::move(kept.keeper), parts_.index->sample_version(a.sample), 0};
}

void PeerExchange::carry(action::SendPush& a) {
  PeerLink::Payload& payload = pushes_.at(a.push);
  payload.checksum = checksum64(payload.bytes);
  parts_.peers->push(a.rank, a.push, a.sample, payload);
}

void PeerExchange::carry(action::TellUnread& a) {
  parts_.peers->push(a.rank, kNoPush, a.sample, {});
}

void PeerExchange::carry(action::PlacePushed& a) {
  const auto& [bytes, keeper] = pushed_.at({a.rank, a.push});
  parts_.lent.place(a.tier, a.sample, bytes, keeper, Traffic::peer);
}

void PeerExchange::carry(action::AnswerPush& a) {
  pushed_.erase({a.rank, a.push});
  parts_.peers->answer_push(a.rank, a.push, a.end);
}

void PeerExchange::carry(action::DropPeer& a) {
  parts_.peers->drop(a.rank);
  // What a dead rank had in memory goes back to the system when the last that has it mapped lets
  // go.
  if (a.rank < parts_.neighbours.size()) parts_.neighbours[a.rank].reset();
  std::erase_if(pushed_, [&a](const auto& push) { return push.first.first == a.rank; });
  parts_.counts.count([&a](EngineStats& stats) {
    stats.dead_peers.push_back(a.rank);
    if (a.in_order) stats.left_peers.push_back(a.rank);
    stats.peers[a.rank].lost = true;
  });
}

void PeerExchange::handle(message::PeerMessage& message) {
  parts_.run.tell(event::PeerHeard{message.from});
  const uint64_t samples = parts_.plan->sizes().samples();
  if (const auto* request = std::get_if<wire::Request>(&message.message)) {
    if (request->sample >= samples) return parts_.peers->refuse(message.from, request->request);
    parts_.run.tell(event::PeerRequest{message.from, request->sample, request->request});
  } else if (const auto* reply = std::get_if<wire::Reply>(&message.message)) {
    const PendingRead* read = reads_.find(reply->request);
    if (!read || read->origin != Origin{Origin::Kind::peer, message.from}) return;
    const bool ok = reply->status == wire::ReplyStatus::here && message.intact &&
                    reply->version == parts_.index->sample_version(read->sample);
    if (reply->status == wire::ReplyStatus::here && !message.intact)
      parts_.counts.count_corrupt(message.from);
    reads_.end(reply->request, ok ? ReadEnd::ok : ReadEnd::missing);
  } else if (const auto* push = std::get_if<wire::Push>(&message.message)) {
    if (push->sample >= samples)
      return parts_.peers->answer_push(message.from, push->push, PushEnd::refused);
    if (push->push == kNoPush)
      return parts_.run.tell(event::PeerPush{message.from, push->sample, kNoPush, false});
    const bool good = message.intact && push->version == parts_.index->sample_version(push->sample);
    if (good) pushed_[{message.from, push->push}] = {message.bytes, std::move(message.keeper)};
    if (!message.intact) parts_.counts.count_corrupt(message.from);
    parts_.run.tell(event::PeerPush{message.from, push->sample, push->push, good});
  } else if (const auto* answer = std::get_if<wire::PushAnswer>(&message.message)) {
    parts_.run.tell(event::PushAnswered{
        answer->push, answer->status == wire::PushStatus::kept ? PushEnd::kept : PushEnd::refused});
  } else if (const auto* cancel = std::get_if<wire::Cancel>(&message.message)) {
    parts_.run.tell(event::PeerCancel{message.from, cancel->request});
  } else if (const auto* ping = std::get_if<wire::Ping>(&message.message)) {
    parts_.peers->pong(message.from, ping->number);
  } else if (std::holds_alternative<wire::Goodbye>(message.message)) {
    parts_.run.tell(event::PeerDown{message.from, true});
  }
}

}  // namespace foreload
