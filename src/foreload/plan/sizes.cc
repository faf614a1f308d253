// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/sizes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/random.h"
#include "foreload/base/unknown_size.h"

namespace foreload {
namespace {

// Keeps the sizes of a synthetic data set apart from other uses of the same seed.
constexpr uint64_t kSizeStream = 0x73697a6573;  // "sizes"

tl::unexpected<Error> no_samples() {
  return fail(ErrorKind::invalid, "the data set has no samples: give at least one");
}

tl::unexpected<Error> too_large() {
  return fail(ErrorKind::invalid,
              "the data set is larger than 2^64 - 1 bytes: check samples and sizes");
}

}  // namespace

Result<Sizes> Sizes::uniform(uint64_t samples, uint64_t bytes) {
  if (samples == 0) return no_samples();
  Sizes sizes;
  sizes.samples_ = samples;
  sizes.uniform_ = bytes;
  sizes.largest_ = bytes;
  if (__builtin_mul_overflow(samples, bytes, &sizes.total_)) return too_large();
  return sizes;
}

Result<Sizes> Sizes::normal(uint64_t samples, uint64_t mean, uint64_t sigma, uint64_t seed) {
  if (sigma == 0) return uniform(samples, mean);
  // Far enough above any sample that exists, and no draw leaves 64 bits.
  constexpr uint64_t kLimit = uint64_t{1} << 56;
  if (mean > kLimit || sigma > kLimit)
    return fail(ErrorKind::invalid, "mean size and sigma must stay below 64 PiB");
  std::vector<uint64_t> bytes(samples);
  for (uint64_t i = 0; i < samples; i += 2) {
    const auto pair = philox_normal(seed, i / 2, kSizeStream);
    for (uint64_t j = 0; j < 2 && i + j < samples; ++j) {
      const double size = static_cast<double>(mean) + static_cast<double>(sigma) * pair[j];
      bytes[i + j] = static_cast<uint64_t>(std::max(0.0, std::round(size)));
    }
  }
  return of(std::move(bytes));
}

Result<Sizes> Sizes::of(std::vector<uint64_t> bytes) {
  if (bytes.empty()) return no_samples();
  Sizes sizes;
  sizes.samples_ = bytes.size();
  for (const uint64_t size : bytes) {
    if (size == kUnknownSize) {
      ++sizes.unknown_;
      continue;
    }
    if (__builtin_add_overflow(sizes.total_, size, &sizes.total_)) return too_large();
    sizes.largest_ = std::max(sizes.largest_, size);
  }
  if (sizes.unknown_ == bytes.size())
    return fail(ErrorKind::invalid,
                "no sample's size is known: give a mean size, or list the data set");
  if (sizes.unknown_ > 0) {
    const uint64_t mean = sizes.total_ / (bytes.size() - sizes.unknown_);
    std::replace(bytes.begin(), bytes.end(), kUnknownSize, mean);
    uint64_t guessed = 0;
    if (__builtin_mul_overflow(mean, sizes.unknown_, &guessed) ||
        __builtin_add_overflow(sizes.total_, guessed, &sizes.total_))
      return too_large();
  }
  sizes.each_ = std::move(bytes);
  return sizes;
}

}  // namespace foreload
