// SPDX-License-Identifier: Apache-2.0
//
// Names the form in which a sample is kept, in keys of copies and between ranks.
#pragma once

#include <cstdint>

namespace foreload {

// 0: the bytes as the store has them; else the hash of what was done to them.
using FormId = uint64_t;
inline constexpr FormId kEncoded = 0;

}  // namespace foreload
