// SPDX-License-Identifier: Apache-2.0
//
// Random numbers that are functions of a key and a counter and have no state: the same
// (seed, epoch, position) gives the same number on every rank, thread and restart.
//
// Philox4x32-10 (Salmon et al., SC11) where quality matters, mix64 where a fast scramble of one
// word is enough (tie breaking, round functions).
#pragma once

#include <array>
#include <cstdint>

namespace foreload {

// Four independent words for one 64-bit key and one 128-bit counter.
std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high = 0);

// Two independent standard normal numbers (Box-Muller over philox).
std::array<double, 2> philox_normal(uint64_t key, uint64_t counter_low, uint64_t counter_high = 0);

// A bijection of 64-bit words in which every input bit moves about half of the output bits.
constexpr uint64_t mix64(uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return x;
}

}  // namespace foreload
