// SPDX-License-Identifier: Apache-2.0
//
// The random numbers of one random step for one sample: a function of (seed, epoch, position,
// number of the step) alone, so that who decodes, when and how often makes no difference.
//
// The rule, which may never change, since training runs are repeated by it:
// - The epoch's key is the first two words, high word first, of philox(key = seed,
//   counter = (epoch, 0x666f72656c6f6164)).
// - Block b of step n is philox(key = the epoch's key, counter = (position, n * 2^32 + b)); its
//   four words make two numbers of 64 bits, high word first. Numbers are used one after the other
//   from block 0 on. n counts the random steps of a chain from 0, those in RandomApply and the like
//   after the step that they are in, whether they happen or not.
// - unit() is the number's upper 53 bits times 2^-53; uniform(a, b) is a + (b - a) * unit();
//   below(n) is the upper 64 bits of the 128-bit product of the number and n.
//
// For one thread; cheap to make.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "foreload/base/random.h"
#include "foreload/base/wide.h"

namespace foreload {

// What the random parameters of one sample are drawn from: its place in the run, not who decodes
// it or when. `position` is the global position in the epoch's order.
struct SampleKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t position = 0;
};

class StepRandom {
 public:
  StepRandom(const SampleKey& key, uint32_t step)
      : position_(key.position), step_(uint64_t{step} << 32) {
    const auto words = philox(key.seed, key.epoch, 0x666f72656c6f6164);
    key_ = uint64_t{words[0]} << 32 | words[1];
  }

  uint64_t number() {
    if (used_ % 2 == 0) block_ = philox(key_, position_, step_ + used_ / 2);
    const size_t word = used_++ % 2 * 2;
    return uint64_t{block_[word]} << 32 | block_[word + 1];
  }
  // In [0, 1).
  double unit() { return static_cast<double>(number() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  // In [0, count). REQUIRES: count > 0.
  uint64_t below(uint64_t count) {
    return static_cast<uint64_t>(uint128_t{number()} * count >> 64);
  }

 private:
  uint64_t key_;
  uint64_t position_;
  uint64_t step_;
  uint32_t used_ = 0;
  std::array<uint32_t, 4> block_{};
};

}  // namespace foreload
