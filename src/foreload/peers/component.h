// SPDX-License-Identifier: Apache-2.0
//
// The border between foreload and a transport in a library of its own: libforeload_ucx.so and
// libforeload_mpi.so export one object of this kind, and load_transport() looks for it. Both sides
// must come from the same build, since C++ objects pass between them; `built_for` guards that.
#pragma once

#include <memory>

#include "foreload/base/result.h"
#include "foreload/peers/transport.h"

namespace foreload {

// Changes with every change of transport.h, rendezvous.h or this file that both sides must know.
inline constexpr int kComponentBorder = 3;

struct TransportComponent {
  int border = kComponentBorder;
  const char* built_for = nullptr;  // foreload's version
  Result<std::unique_ptr<Transport>> (*make)(const TransportSettings& settings,
                                             TransportCalls calls) = nullptr;
  // A rendezvous that needs no other service; null: this component has none.
  Result<std::unique_ptr<Rendezvous>> (*meet)(const TransportSettings& settings) = nullptr;
};

// The name under which it is exported.
inline constexpr char kComponentName[] = "foreload_transport_component";

}  // namespace foreload
