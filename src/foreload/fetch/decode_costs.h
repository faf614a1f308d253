// SPDX-License-Identifier: Apache-2.0
//
// What decoding a sample will take: what it took when it was decoded before, else what all samples
// took for their bytes. Files of one size may differ tenfold (progressive ones, huge ones of few
// colours), which only the first epoch has to guess.
//
// For the loop thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "foreload/base/sparse_array.h"

namespace foreload {

class DecodeCosts {
 public:
  explicit DecodeCosts(uint64_t samples) : took_(samples) {}

  void count(uint64_t sample, uint64_t bytes, std::chrono::nanoseconds took) {
    const auto seconds = std::chrono::duration<float>(took).count();
    took_.touch(sample) = seconds;
    seconds_ += seconds;
    bytes_ += static_cast<double>(bytes);
  }

  std::chrono::nanoseconds expected(uint64_t sample, uint64_t bytes) const {
    double seconds = took_[sample];
    if (seconds == 0)
      seconds = static_cast<double>(bytes) * (bytes_ > 0 ? seconds_ / bytes_ : kFirstGuess);
    return std::chrono::nanoseconds(static_cast<int64_t>(1e9 * seconds));
  }

 private:
  static constexpr double kFirstGuess = 1e-8;  // seconds a byte, while nothing was decoded

  SparseArray<float> took_;  // seconds by sample, the last time; 0: never
  double seconds_ = 0;       // of all
  double bytes_ = 0;
};

}  // namespace foreload
