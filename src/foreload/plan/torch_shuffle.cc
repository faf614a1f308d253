// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/torch_shuffle.h"

#include <array>
#include <numeric>
#include <utility>

namespace foreload {
namespace {

// MT19937 with its output computed a whole state at a time, in loops the compiler can vectorise.
class Mt19937 {
 public:
  explicit Mt19937(uint32_t seed) {
    state_[0] = seed;
    for (uint32_t i = 1; i < kSize; ++i)
      state_[i] = 1812433253u * (state_[i - 1] ^ (state_[i - 1] >> 30)) + i;
  }

  uint32_t draw32() {
    if (next_ == kSize) refill();
    return output_[next_++];
  }

  uint64_t draw64() {
    const uint64_t high = draw32();
    return high << 32 | draw32();
  }

 private:
  static constexpr uint32_t kSize = 624;
  static constexpr uint32_t kShift = 397;

  static uint32_t twist(uint32_t upper, uint32_t lower, uint32_t shifted) {
    const uint32_t y = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return shifted ^ (y >> 1) ^ ((0u - (lower & 1u)) & 0x9908b0dfu);
  }

  void refill() {
    for (uint32_t i = 0; i < kSize - kShift; ++i)
      state_[i] = twist(state_[i], state_[i + 1], state_[i + kShift]);
    for (uint32_t i = kSize - kShift; i < kSize - 1; ++i)
      state_[i] = twist(state_[i], state_[i + 1], state_[i + kShift - kSize]);
    state_[kSize - 1] = twist(state_[kSize - 1], state_[0], state_[kShift - 1]);
    for (uint32_t i = 0; i < kSize; ++i) {
      uint32_t y = state_[i];
      y ^= y >> 11;
      y ^= (y << 7) & 0x9d2c5680u;
      y ^= (y << 15) & 0xefc60000u;
      y ^= y >> 18;
      output_[i] = y;
    }
    next_ = 0;
  }

  std::array<uint32_t, kSize> state_;
  std::array<uint32_t, kSize> output_;
  uint32_t next_ = kSize;
};

template <class Id>
void randperm(uint64_t seed, std::span<Id> out) {
  Mt19937 random(static_cast<uint32_t>(seed));
  const uint64_t n = out.size();
  if (n < kLongShuffle) {
    std::iota(out.begin(), out.end(), Id{0});
    for (uint32_t i = 0; i + 1 < n; ++i) {
      const uint32_t step = random.draw32() % (static_cast<uint32_t>(n) - i);
      std::swap(out[i], out[i + step]);
    }
  } else {
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t place = random.draw64() % (i + 1);
      out[i] = out[place];
      out[place] = static_cast<Id>(i);
    }
  }
}

}  // namespace

void torch_randperm(uint64_t seed, std::span<uint32_t> out) {
  randperm(seed, out);
}
void torch_randperm(uint64_t seed, std::span<uint64_t> out) {
  randperm(seed, out);
}

}  // namespace foreload
