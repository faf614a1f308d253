// SPDX-License-Identifier: Apache-2.0
//
// What stands for a size that nobody has measured yet, in listings, in an index and in a plan.
#pragma once

#include <cstdint>

namespace foreload {

inline constexpr uint64_t kUnknownSize = UINT64_MAX;

}  // namespace foreload
