// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process has used.
#pragma once

#include <cstdint>

namespace foreload {

// The most resident memory so far, in bytes.
uint64_t peak_rss();

}  // namespace foreload
