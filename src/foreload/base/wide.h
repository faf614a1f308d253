// SPDX-License-Identifier: Apache-2.0
//
// A 128-bit unsigned integer for products and sums of 64-bit numbers that must not overflow.
#pragma once

namespace foreload {

__extension__ using uint128_t = unsigned __int128;

}  // namespace foreload
