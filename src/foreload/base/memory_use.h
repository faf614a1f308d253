// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process has used. Any thread.
#pragma once

#include <cstdint>

namespace foreload {

// The most resident memory since the program was started, in bytes. Memory that it shares with
// other processes counts too, as far as it has been touched.
uint64_t peak_rss();

}  // namespace foreload
