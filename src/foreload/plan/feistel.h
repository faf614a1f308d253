// SPDX-License-Identifier: Apache-2.0
//
// A keyed permutation of 0 .. n-1 that is computed entry by entry in both directions, in constant
// time and memory, so that a billion samples need no table.
//
// It is an unbalanced additive Feistel network over pairs (left, right) with left < a, right < b,
// a * b just above n: a is the root of n rounded up, so a * b exceeds n by less than a, and walking
// the cycle until the value falls below n again hardly ever takes a second step.
#pragma once

#include <array>
#include <cstdint>

namespace foreload {

class FeistelPermutation {
 public:
  // REQUIRES: 1 <= n <= 2^63.
  FeistelPermutation(uint64_t n, uint64_t seed, uint64_t stream);

  uint64_t size() const { return n_; }
  uint64_t operator()(uint64_t x) const;  // REQUIRES: x < size()
  uint64_t inverse(uint64_t y) const;     // REQUIRES: y < size()

 private:
  static constexpr int kRounds = 8;

  uint64_t n_;
  uint64_t a_;
  uint64_t b_;
  std::array<uint64_t, kRounds> keys_;
};

}  // namespace foreload
