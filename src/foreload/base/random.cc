// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/random.h"

#include <cmath>
#include <numbers>

namespace foreload {

std::array<uint32_t, 4> philox(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  std::array<uint32_t, 4> x{low(counter_low), high(counter_low), low(counter_high),
                            high(counter_high)};
  uint32_t k0 = low(key);
  uint32_t k1 = high(key);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * x[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * x[2];
    x = {high(b) ^ x[1] ^ k0, low(b), high(a) ^ x[3] ^ k1, low(a)};
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return x;
}

std::array<double, 2> philox_normal(uint64_t key, uint64_t counter_low, uint64_t counter_high) {
  const auto words = philox(key, counter_low, counter_high);
  auto unit = [](uint32_t a, uint32_t b) {  // in (0, 1], 53 bits
    return (static_cast<double>(((uint64_t{a} << 32 | b) >> 11)) + 1) * 0x1p-53;
  };
  const double radius = std::sqrt(-2 * std::log(unit(words[0], words[1])));
  const double angle = 2 * std::numbers::pi * unit(words[2], words[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace foreload
