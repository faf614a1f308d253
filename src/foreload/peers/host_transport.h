// SPDX-License-Identifier: Apache-2.0
//
// The transport between ranks of one host that needs no library: Unix stream sockets in the
// abstract namespace, where a name vanishes with its process. Each direction between two ranks is a
// connection of its own, made by the sender when it first sends. A payload is written from where it
// lies and read into the place that `incoming` named. The kernel says which user is at the other
// end, and only the own one is let in; so nothing is signed. One thread does everything and sleeps
// while nothing happens. A peer whose process ends is lost at once.
#pragma once

#include <memory>

#include "foreload/base/result.h"
#include "foreload/peers/transport.h"

namespace foreload::peers {

// Joins: gives the own socket's name and waits for those of all ranks. Fails as load_transport().
Result<std::unique_ptr<Transport>> make_host_transport(const TransportSettings& settings,
                                                       TransportCalls calls);

}  // namespace foreload::peers
