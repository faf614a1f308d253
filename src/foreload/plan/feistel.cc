// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/feistel.h"

#include <cassert>
#include <cmath>

#include "foreload/base/random.h"
#include "foreload/base/wide.h"

namespace foreload {
namespace {

// A number below `limit` that depends on every bit of `half` and `key`. mix64 is good enough as a
// round function: what has to look random is eight of them in a row.
uint64_t draw(uint64_t half, uint64_t key, uint64_t limit) {
  return static_cast<uint64_t>(static_cast<uint128_t>(mix64(half ^ key)) * limit >> 64);
}

uint64_t ceil_sqrt(uint64_t n) {
  auto root = static_cast<uint64_t>(std::sqrt(static_cast<double>(n)));
  while (static_cast<uint128_t>(root) * root < n) ++root;
  while (root > 1 && static_cast<uint128_t>(root - 1) * (root - 1) >= n) --root;
  return root;
}

}  // namespace

FeistelPermutation::FeistelPermutation(uint64_t n, uint64_t seed, uint64_t stream)
    : n_(n), a_(ceil_sqrt(n)), b_((n + a_ - 1) / a_) {
  assert(n >= 1 && n <= uint64_t{1} << 63);
  for (int round = 0; round < kRounds; ++round) {
    const auto words = philox(seed, stream, static_cast<uint64_t>(round));
    keys_[round] = uint64_t{words[0]} << 32 | words[1];
  }
}

uint64_t FeistelPermutation::operator()(uint64_t x) const {
  assert(x < n_);
  do {
    uint64_t left = x / b_;
    uint64_t right = x - left * b_;
    for (int round = 0; round < kRounds; round += 2) {
      left += draw(right, keys_[round], a_);
      if (left >= a_) left -= a_;
      right += draw(left, keys_[round + 1], b_);
      if (right >= b_) right -= b_;
    }
    x = left * b_ + right;
  } while (x >= n_);
  return x;
}

uint64_t FeistelPermutation::inverse(uint64_t y) const {
  assert(y < n_);
  do {
    uint64_t left = y / b_;
    uint64_t right = y - left * b_;
    for (int round = kRounds - 2; round >= 0; round -= 2) {
      const uint64_t add_right = draw(left, keys_[round + 1], b_);
      right = right >= add_right ? right - add_right : right + b_ - add_right;
      const uint64_t add_left = draw(right, keys_[round], a_);
      left = left >= add_left ? left - add_left : left + a_ - add_left;
    }
    y = left * b_ + right;
  } while (y >= n_);
  return y;
}

}  // namespace foreload
