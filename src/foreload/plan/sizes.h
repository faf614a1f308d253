// SPDX-License-Identifier: Apache-2.0
//
// Sample sizes as the plan sees them: one for all, or one each. A sample whose size nobody knows is
// planned with the mean of the others. Immutable: any thread may use it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

class Sizes {
 public:
  // Every sample has the same size. Fails with `invalid` for no samples or a total beyond 64 bits.
  static Result<Sizes> uniform(uint64_t samples, uint64_t bytes);
  // Drawn from normal(mean, sigma), cut at 0, by a generator keyed with `seed`.
  static Result<Sizes> normal(uint64_t samples, uint64_t mean, uint64_t sigma, uint64_t seed);
  // One size per sample; kUnknownSize where it is not known. Fails with `invalid` if none is.
  static Result<Sizes> of(std::vector<uint64_t> bytes);

  uint64_t samples() const { return samples_; }
  uint64_t operator[](uint64_t sample) const { return each_.empty() ? uniform_ : each_[sample]; }
  uint64_t total() const { return total_; }
  uint64_t largest() const { return largest_; }
  uint64_t mean() const { return total_ / samples_; }
  uint64_t unknown() const { return unknown_; }             // how many were planned with the mean
  std::span<const uint64_t> each() const { return each_; }  // empty if uniform

 private:
  Sizes() = default;

  uint64_t samples_ = 0;
  uint64_t uniform_ = 0;
  std::vector<uint64_t> each_;  // empty: uniform
  uint64_t total_ = 0;
  uint64_t largest_ = 0;
  uint64_t unknown_ = 0;
};

}  // namespace foreload
