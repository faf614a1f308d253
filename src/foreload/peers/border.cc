// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/border.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace foreload::border {
namespace {

using Keeper = std::shared_ptr<const void>;

std::span<const std::byte> bytes_at(const void* data, uint64_t size) {
  return {static_cast<const std::byte*>(data), static_cast<size_t>(size)};
}

class OtherSidesRendezvous final : public Rendezvous {
 public:
  explicit OtherSidesRendezvous(foreload_rendezvous rendezvous) : there_(rendezvous) {}
  ~OtherSidesRendezvous() override { there_.end(there_.self); }

  Result<void> put(const std::string& key, const std::string& value) override {
    Taken why;
    const int outcome =
        there_.put(there_.self, key.c_str(), value.data(), value.size(), why.taker());
    if (outcome == FORELOAD_OK) return {};
    return tl::unexpected(error_of(outcome, why));
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    Taken value, why;
    const int outcome =
        there_.get(there_.self, key.c_str(), timeout.count(), value.taker(), why.taker());
    if (outcome == FORELOAD_OK && !value.complete()) throw std::bad_alloc();
    if (outcome == FORELOAD_OK) return std::move(value.text);
    return tl::unexpected(error_of(outcome, why));
  }
  std::shared_ptr<Rendezvous> above() override { return take(there_.relay(there_.self, 0)); }
  std::shared_ptr<Rendezvous> below() override { return take(there_.relay(there_.self, 1)); }

 private:
  const foreload_rendezvous there_;
};

Rendezvous& rendezvous_of(void* self) {
  return **static_cast<std::shared_ptr<Rendezvous>*>(self);
}
int put_value(void* self, const char* key, const void* value, size_t bytes,
              foreload_taker why) noexcept {
  return outcome_of(
      why, [&] { return rendezvous_of(self).put(key, {static_cast<const char*>(value), bytes}); });
}
int get_value(void* self, const char* key, int64_t timeout_ms, foreload_taker value,
              foreload_taker why) noexcept {
  return outcome_of(why, [&]() -> Result<void> {
    FORELOAD_TRY(const std::string found,
                 rendezvous_of(self).get(key, std::chrono::milliseconds(timeout_ms)));
    value.take(value.self, found.data(), found.size());
    return {};
  });
}

foreload_rendezvous relay_of(void* self, int down) noexcept {
  Rendezvous& own = rendezvous_of(self);
  return give(down != 0 ? own.below() : own.above());
}

class OtherSidesTransport final : public Transport {
 public:
  OtherSidesTransport(foreload_transport transport, std::unique_ptr<const TransportCalls> calls)
      : there_(transport), calls_(std::move(calls)) {}
  ~OtherSidesTransport() override { there_.end(there_.self); }

  void send(uint32_t to, OutgoingMessage message) override {
    const foreload_message given{message.id,
                                 message.header.data(),
                                 message.header.size(),
                                 message.payload.data(),
                                 message.payload.size(),
                                 give(std::move(message.keeper))};
    if (there_.send(there_.self, to, &given) != FORELOAD_OK) throw std::bad_alloc();
  }
  void drop(uint32_t rank) override { there_.drop(there_.self, rank); }
  std::string describe() const override {
    Taken text;
    there_.describe(there_.self, text.taker());
    return std::move(text.text);
  }

 private:
  const foreload_transport there_;
  const std::unique_ptr<const TransportCalls> calls_;
};

Transport& transport_of(void* self) {
  return *static_cast<Transport*>(self);
}
int send_message(void* self, uint32_t to, const foreload_message* message) noexcept {
  try {
    transport_of(self).send(
        to, {message->id, bytes_at(message->header, message->header_bytes),
             bytes_at(message->payload, message->payload_bytes), take(message->keeper)});
    return FORELOAD_OK;
  } catch (...) {
    return FORELOAD_UNREADABLE;
  }
}

const TransportCalls& calls_of(void* self) {
  return *static_cast<const TransportCalls*>(self);
}

}  // namespace

void Taken::take(void* self, const void* bytes, size_t size) noexcept {
  auto* const taken = static_cast<Taken*>(self);
  try {
    taken->text.assign(static_cast<const char*>(bytes), size);
    taken->complete_ = true;
  } catch (...) {
    taken->text.clear();
  }
}

int unexpected(const char* what, foreload_taker why) noexcept {
  char text[256];
  const int size = std::snprintf(text, sizeof text, "a transport failed unexpectedly: %s", what);
  why.take(why.self, text, std::min(static_cast<size_t>(size), sizeof text - 1));
  return FORELOAD_UNREADABLE;
}

int outcome_of(const Error& error, foreload_taker why) noexcept {
  why.take(why.self, error.message.data(), error.message.size());
  switch (error.kind) {
    case ErrorKind::invalid:
    case ErrorKind::unsupported:
      return FORELOAD_INVALID;
    case ErrorKind::corrupt:
      return FORELOAD_CORRUPT;
    case ErrorKind::cancelled:
      return FORELOAD_CANCELLED;
    case ErrorKind::unreadable:
      break;
  }
  return FORELOAD_UNREADABLE;
}

Error error_of(int outcome, Taken& why) {
  const ErrorKind kind = outcome == FORELOAD_INVALID     ? ErrorKind::invalid
                         : outcome == FORELOAD_CORRUPT   ? ErrorKind::corrupt
                         : outcome == FORELOAD_CANCELLED ? ErrorKind::cancelled
                                                         : ErrorKind::unreadable;
  return {kind, std::move(why.text)};
}

foreload_keeper give(std::shared_ptr<const void> keeper) {
  if (!keeper) return {nullptr, nullptr};
  return {new Keeper(std::move(keeper)),
          [](void* object) noexcept { delete static_cast<Keeper*>(object); }};
}

std::shared_ptr<const void> take(foreload_keeper keeper) {
  if (keeper.object == nullptr) return nullptr;
  return {keeper.object, keeper.release};
}

foreload_rendezvous give(std::shared_ptr<Rendezvous> rendezvous) {
  if (!rendezvous) return {};
  return {new std::shared_ptr<Rendezvous>(std::move(rendezvous)), put_value, get_value, relay_of,
          [](void* self) noexcept { delete static_cast<std::shared_ptr<Rendezvous>*>(self); }};
}

std::unique_ptr<Rendezvous> take(foreload_rendezvous rendezvous) {
  if (rendezvous.self == nullptr) return nullptr;
  return std::make_unique<OtherSidesRendezvous>(rendezvous);
}

foreload_calls give(const TransportCalls& calls) {
  foreload_calls given{};
  given.self = const_cast<TransportCalls*>(&calls);
  given.incoming = [](void* self, uint32_t from, const void* header, size_t header_bytes,
                      uint64_t bytes) noexcept -> foreload_place {
    PayloadPlace place = calls_of(self).incoming(from, bytes_at(header, header_bytes), bytes);
    return {place.data, give(std::move(place.keeper))};
  };
  given.arrived = [](void* self, uint32_t from, const void* header, size_t header_bytes,
                     foreload_place place, uint64_t bytes, int intact) noexcept {
    calls_of(self).arrived(from, bytes_at(header, header_bytes),
                           {static_cast<std::byte*>(place.data), take(place.keeper)}, bytes,
                           intact != 0);
  };
  given.sent = [](void* self, uint64_t id, int ok) noexcept { calls_of(self).sent(id, ok != 0); };
  given.lost = [](void* self, uint32_t rank, const char* why, size_t bytes) noexcept {
    calls_of(self).lost(rank, std::string(why, bytes));
  };
  return given;
}

TransportCalls take(const foreload_calls& there) {
  TransportCalls calls;
  calls.incoming = [there](uint32_t from, std::span<const std::byte> header, uint64_t bytes) {
    const foreload_place place =
        there.incoming(there.self, from, header.data(), header.size(), bytes);
    return PayloadPlace{static_cast<std::byte*>(place.data), take(place.keeper)};
  };
  calls.arrived = [there](uint32_t from, std::span<const std::byte> header, PayloadPlace place,
                          uint64_t bytes, bool intact) {
    there.arrived(there.self, from, header.data(), header.size(),
                  {place.data, give(std::move(place.keeper))}, bytes, intact ? 1 : 0);
  };
  calls.sent = [there](uint64_t id, bool ok) { there.sent(there.self, id, ok ? 1 : 0); };
  calls.lost = [there](uint32_t rank, const std::string& why) {
    there.lost(there.self, rank, why.data(), why.size());
  };
  return calls;
}

foreload_transport give(std::unique_ptr<Transport> transport) {
  return {transport.release(), send_message,
          [](void* self, uint32_t rank) noexcept { transport_of(self).drop(rank); },
          [](void* self, foreload_taker text) noexcept {
            const std::string own = transport_of(self).describe();
            text.take(text.self, own.data(), own.size());
          },
          [](void* self) noexcept { delete static_cast<Transport*>(self); }};
}

std::unique_ptr<Transport> take(foreload_transport transport,
                                std::unique_ptr<const TransportCalls> calls) {
  return std::make_unique<OtherSidesTransport>(transport, std::move(calls));
}

foreload_settings give(const TransportSettings& settings) {
  foreload_settings given{};
  given.size = sizeof given;
  given.rank = settings.rank;
  given.ranks = settings.ranks;
  given.join_timeout_ms = settings.join_timeout.count();
  given.interface = settings.interface.c_str();
  given.ucx = settings.ucx.c_str();
  given.ucx_package = settings.ucx_package.c_str();
  static_assert(sizeof given.secret == sizeof settings.secret);
  std::memcpy(given.secret, settings.secret.data(), sizeof given.secret);
  given.rendezvous = give(settings.rendezvous);
  return given;
}

Result<TransportSettings> take(const foreload_settings& given) {
  if (given.size != sizeof given)
    return fail(ErrorKind::invalid,
                "the settings of the transport come from another build of "
                "foreload. Install both from the same package");
  TransportSettings settings;
  settings.rendezvous = take(given.rendezvous);
  settings.rank = given.rank;
  settings.ranks = given.ranks;
  settings.join_timeout = std::chrono::milliseconds(given.join_timeout_ms);
  settings.interface = given.interface;
  settings.ucx = given.ucx;
  settings.ucx_package = given.ucx_package;
  std::memcpy(settings.secret.data(), given.secret, sizeof given.secret);
  return settings;
}

}  // namespace foreload::border
