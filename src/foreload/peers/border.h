// SPDX-License-Identifier: Apache-2.0
//
// Turns C++ objects into what component.h passes across the border, and back. Both sides compile
// this, each for itself: give() wraps what the own side made, take() what the other side gave. An
// exception ends at the border: as a failed outcome where a call can fail, as the end of the
// process where it cannot (the calls of a transport, as on any other thread). Any thread.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "foreload/base/result.h"
#include "foreload/peers/component.h"
#include "foreload/peers/transport.h"

namespace foreload::border {

// Text or bytes that the other side gives during a call.
class Taken {
 public:
  foreload_taker taker() { return {this, &take}; }
  bool complete() const { return complete_; }
  std::string text;

 private:
  static void take(void* self, const void* bytes, size_t size) noexcept;
  bool complete_ = false;
};

int outcome_of(const Error& error, foreload_taker why) noexcept;
int unexpected(const char* what, foreload_taker why) noexcept;
// What a failed outcome and its reason say.
Error error_of(int outcome, Taken& why);

// Runs what returns Result<void>; nothing gets out but an outcome.
template <class Work>
int outcome_of(foreload_taker why, Work work) noexcept {
  try {
    const Result<void> result = work();
    return result ? FORELOAD_OK : outcome_of(result.error(), why);
  } catch (const std::exception& error) {
    return unexpected(error.what(), why);
  } catch (...) {
    return unexpected("an exception of another kind", why);
  }
}

foreload_keeper give(std::shared_ptr<const void> keeper);
std::shared_ptr<const void> take(foreload_keeper keeper);

foreload_rendezvous give(std::shared_ptr<Rendezvous> rendezvous);
std::unique_ptr<Rendezvous> take(foreload_rendezvous rendezvous);

// `calls` must outlive what is given and taken.
foreload_calls give(const TransportCalls& calls);
TransportCalls take(const foreload_calls& calls);

foreload_transport give(std::unique_ptr<Transport> transport);
// Keeps the calls that the transport was made with.
std::unique_ptr<Transport> take(foreload_transport transport,
                                std::unique_ptr<const TransportCalls> calls);

// The texts in it are those of `settings`, which must stay; the rendezvous goes to the other side.
foreload_settings give(const TransportSettings& settings);
// Fails with `invalid` if they are of another border.
Result<TransportSettings> take(const foreload_settings& settings);

// The entries of a component around functions in C++.
template <auto make>
int make_transport(const foreload_settings* settings, const foreload_calls* calls,
                   foreload_transport* made, foreload_taker why) noexcept {
  return outcome_of(why, [&]() -> Result<void> {
    FORELOAD_TRY(const TransportSettings own, take(*settings));
    FORELOAD_TRY(auto transport, make(own, take(*calls)));
    *made = give(std::move(transport));
    return {};
  });
}
template <auto meet>
int make_rendezvous(const foreload_settings* settings, foreload_rendezvous* made,
                    foreload_taker why) noexcept {
  return outcome_of(why, [&]() -> Result<void> {
    FORELOAD_TRY(const TransportSettings own, take(*settings));
    FORELOAD_TRY(auto rendezvous, meet(own));
    *made = give(std::shared_ptr<Rendezvous>(std::move(rendezvous)));
    return {};
  });
}
template <auto open>
int open_libraries(const foreload_settings* settings, foreload_taker why) noexcept {
  return outcome_of(why, [&]() -> Result<void> {
    FORELOAD_TRY(const TransportSettings own, take(*settings));
    return open(own);
  });
}

}  // namespace foreload::border
