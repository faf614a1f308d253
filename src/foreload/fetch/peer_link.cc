// SPDX-License-Identifier: Apache-2.0
#include "foreload/fetch/peer_link.h"

#include <utility>

#include "foreload/base/hash.h"

namespace foreload {

TransportCalls PeerLink::calls() {
  TransportCalls calls;
  calls.incoming = [this](uint32_t from, std::span<const std::byte> header, uint64_t bytes) {
    return incoming(from, header, bytes);
  };
  calls.arrived = [this](uint32_t from, std::span<const std::byte> header, PayloadPlace place,
                         uint64_t bytes,
                         bool intact) { arrived(from, header, std::move(place), bytes, intact); };
  calls.sent = [this](uint64_t id, bool) {
    if (id != 0) inbox_->post(message::PeerSent{id});
  };
  calls.lost = [this](uint32_t rank, const std::string&) {
    inbox_->post(Event{event::PeerDown{rank, has_left_(rank)}});
  };
  return calls;
}

bool PeerLink::is_sample(uint64_t sample, uint64_t bytes) const {
  return sample < plan_->sizes().samples() && plan_->sizes()[sample] == bytes;
}

void PeerLink::send(uint32_t rank, const WireMessage& message) {
  send(rank, message, 0, Payload());
}

void PeerLink::send(uint32_t rank, const WireMessage& message, uint64_t id,
                    const Payload& payload) {
  spoken_to_.insert(rank);
  const std::vector<std::byte> header = encode(message);
  transport_->send(rank, {id, header, payload.bytes, payload.keeper});
}

void PeerLink::ask(uint32_t rank, uint64_t request, uint64_t sample, std::span<std::byte> into,
                   std::shared_ptr<const void> keeper) {
  {
    std::lock_guard lock(mutex_);
    asked_[request] = {rank, into, std::move(keeper)};
  }
  send(rank, wire::Request{request, sample});
}

void PeerLink::cancel(uint32_t rank, uint64_t request) {
  {
    std::lock_guard lock(mutex_);
    asked_.erase(request);
  }
  send(rank, wire::Cancel{request});
}

void PeerLink::reply(uint32_t rank, uint64_t request, uint64_t id, const Payload& payload) {
  send(rank, wire::Reply{request, wire::ReplyStatus::here, payload.version, payload.checksum}, id,
       payload);
}

void PeerLink::refuse(uint32_t rank, uint64_t request) {
  send(rank, wire::Reply{request, wire::ReplyStatus::missing, 0, 0});
}

void PeerLink::push(uint32_t rank, uint64_t push, uint64_t sample, const Payload& payload) {
  send(rank, wire::Push{push, sample, payload.version, payload.checksum}, 0, payload);
}

void PeerLink::answer_push(uint32_t rank, uint64_t push, PushEnd end) {
  send(rank, wire::PushAnswer{
                 push, end == PushEnd::kept ? wire::PushStatus::kept : wire::PushStatus::refused});
}

void PeerLink::ping(uint32_t rank) {
  send(rank, wire::Ping{0});
}

void PeerLink::pong(uint32_t rank, uint64_t number) {
  send(rank, wire::Pong{number});
}

void PeerLink::drop(uint32_t rank) {
  spoken_to_.erase(rank);
  transport_->drop(rank);
}

void PeerLink::say_goodbye() {
  for (const uint32_t rank : std::set<uint32_t>(spoken_to_)) send(rank, wire::Goodbye{});
}

PayloadPlace PeerLink::incoming(uint32_t from, std::span<const std::byte> header, uint64_t bytes) {
  const auto message = parse_message(header);
  if (!message) return {};
  if (const auto* reply = std::get_if<wire::Reply>(&*message)) {
    std::lock_guard lock(mutex_);
    const auto asked = asked_.find(reply->request);
    if (asked == asked_.end() || asked->second.rank != from || asked->second.into.size() != bytes)
      return {};
    return {asked->second.into.data(), asked->second.keeper};
  }
  const auto* push = std::get_if<wire::Push>(&*message);
  if (push == nullptr || !is_sample(push->sample, bytes)) return {};
  auto slot = staging_->take(std::span(&bytes, 1));
  if (!slot) return {};
  std::byte* data = (*slot)->range(0).data();
  return {data, std::move(*slot)};
}

void PeerLink::arrived(uint32_t from, std::span<const std::byte> header, PayloadPlace place,
                       uint64_t bytes, bool intact) {
  // A second time for messages with a payload: that takes 24 ns, and nothing need be kept for it.
  auto parsed = parse_message(header);
  if (!parsed) return;
  message::PeerMessage message{from, std::move(*parsed), {}, nullptr, intact};
  if (bytes > 0 && place.data != nullptr) {
    message.bytes = {place.data, bytes};
    message.keeper = std::move(place.keeper);
  }
  if (const auto* reply = std::get_if<wire::Reply>(&message.message)) {
    {
      std::lock_guard lock(mutex_);
      const auto asked = asked_.find(reply->request);
      if (asked == asked_.end() || asked->second.rank != from) return;  // given up
      message.intact = message.intact && asked->second.into.size() == message.bytes.size();
      asked_.erase(asked);
    }
    if (reply->status == wire::ReplyStatus::here && checksum64(message.bytes) != reply->checksum)
      message.intact = false;
  } else if (const auto* push = std::get_if<wire::Push>(&message.message)) {
    message.intact = message.intact && is_sample(push->sample, message.bytes.size()) &&
                     checksum64(message.bytes) == push->checksum;
  }
  inbox_->post(std::move(message));
}

}  // namespace foreload
