// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace foreload {
namespace {

constexpr size_t kFirstBits = 10;  // log2 of the lower end of bucket 1, in nanoseconds

}  // namespace

size_t DurationHistogram::bucket_of(uint64_t nanoseconds) {
  if (nanoseconds < uint64_t{1} << kFirstBits) return 0;
  const auto bits = static_cast<size_t>(std::bit_width(nanoseconds)) - 1;
  const uint64_t width = (uint64_t{1} << bits) / kPerDoubling;
  const size_t within = (nanoseconds - (uint64_t{1} << bits)) / width;
  const size_t bucket = 1 + (bits - kFirstBits) * kPerDoubling + within;
  return std::min(bucket, kPerDoubling * kDoublings);
}

uint64_t DurationHistogram::middle_of(size_t bucket) {
  if (bucket == 0) return uint64_t{1} << kFirstBits;
  const uint64_t start = (uint64_t{1} << kFirstBits) << ((bucket - 1) / kPerDoubling);
  const uint64_t width = start / kPerDoubling;
  return start + (bucket - 1) % kPerDoubling * width + width / 2;
}

void DurationHistogram::add(std::chrono::nanoseconds duration) {
  const auto nanoseconds = static_cast<uint64_t>(std::max<int64_t>(0, duration.count()));
  ++buckets_[bucket_of(nanoseconds)];
  ++count_;
  sum_ += nanoseconds;
  largest_ = std::max(largest_, nanoseconds);
}

void DurationHistogram::clear() {
  *this = {};
}

std::chrono::nanoseconds DurationHistogram::quantile(double share) const {
  const double wanted = std::ceil(share * static_cast<double>(count_));
  const uint64_t rank = std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
  if (rank >= count_) return largest();
  uint64_t below = 0;
  size_t bucket = 0;
  while ((below += buckets_[bucket]) < rank) ++bucket;
  return std::chrono::nanoseconds(std::min(middle_of(bucket), largest_));
}

std::vector<uint64_t> DurationHistogram::doublings() const {
  std::vector<uint64_t> counts(1 + kDoublings);
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    counts[bucket == 0 ? 0 : 1 + (bucket - 1) / kPerDoubling] += buckets_[bucket];
  while (!counts.empty() && counts.back() == 0) counts.pop_back();
  return counts;
}

}  // namespace foreload
