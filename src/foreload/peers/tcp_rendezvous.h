// SPDX-License-Identifier: Apache-2.0
//
// The two ends of a TCP rendezvous between a rank and those that it passes something on to. Private
// to peers.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "foreload/peers/rendezvous.h"

namespace foreload::peers {

// A store that others may only read, at a port of `host` that the system chooses. Fails with
// `unreadable`.
Result<std::shared_ptr<Rendezvous>> serve_readers(const std::string& host, uint16_t& port);
// One that is there already: who refuses is gone, and is not tried again. Fails with `unreadable`.
Result<std::unique_ptr<Rendezvous>> read_from(const std::string& host, uint16_t port,
                                              std::chrono::milliseconds timeout);

}  // namespace foreload::peers
