// SPDX-License-Identifier: Apache-2.0
//
// Which network interface a job talks over: the one through which this host reaches another, the
// rendezvous for instance. Nothing is sent to find out. Any thread.
#pragma once

#include <string>

#include "foreload/base/result.h"

namespace foreload {

// "eth0"; "lo" for the host itself. Fails with `unreadable` if the host is unknown or there is no
// way to it.
Result<std::string> interface_towards(const std::string& host);
// The address there, in digits. Fails in the same way.
Result<std::string> address_towards(const std::string& host);

}  // namespace foreload
