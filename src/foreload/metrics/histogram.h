// SPDX-License-Identifier: Apache-2.0
//
// Durations with quantiles, in constant memory: buckets are about 3 % wide, from a microsecond to
// five hours, so any quantile is right to 3 %; count, sum and the largest value are exact. What
// lasts less than a microsecond counts as one, in quantiles. For one thread.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace foreload {

class DurationHistogram {
 public:
  void add(std::chrono::nanoseconds duration);
  void clear();

  uint64_t count() const { return count_; }
  std::chrono::nanoseconds sum() const { return std::chrono::nanoseconds(sum_); }
  std::chrono::nanoseconds largest() const { return std::chrono::nanoseconds(largest_); }
  // The smallest recorded duration that `share` of all are not above; 0 without any.
  // REQUIRES: 0 <= share <= 1.
  std::chrono::nanoseconds quantile(double share) const;
  // How many lie in each power of two: [0, 1024 ns), then [1024 ns, 2048 ns) and so on, as far as
  // there are any.
  std::vector<uint64_t> doublings() const;

 private:
  // 32 buckets of equal width per power of two from 1024 ns on, one bucket below.
  static constexpr size_t kPerDoubling = 32;
  static constexpr size_t kDoublings = 34;
  static size_t bucket_of(uint64_t nanoseconds);
  static uint64_t middle_of(size_t bucket);

  std::array<uint64_t, 1 + kPerDoubling * kDoublings> buckets_{};
  uint64_t count_ = 0;
  uint64_t sum_ = 0;
  uint64_t largest_ = 0;
};

}  // namespace foreload
