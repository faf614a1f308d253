// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/histogram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

TEST(DurationHistogram, EmptyIsZero) {
  const DurationHistogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.quantile(0.5), nanoseconds(0));
  EXPECT_EQ(histogram.largest(), nanoseconds(0));
}

TEST(DurationHistogram, OneValueIsEveryQuantile) {
  DurationHistogram histogram;
  histogram.add(nanoseconds(123'456'789));
  for (double share : {0.0, 0.5, 1.0}) {
    EXPECT_EQ(histogram.quantile(share), nanoseconds(123'456'789)) << share;
  }
}

TEST(DurationHistogram, QuantilesAreThoseOfTheSortedSamples) {
  constexpr size_t kSamples = 10'000;
  DurationHistogram histogram;
  std::vector<int64_t> samples;
  int64_t sum = 0;
  for (size_t i = 0; i < kSamples; ++i) {
    // From about 2 us to about 20 s.
    const auto sample = static_cast<int64_t>(5e6 * std::exp(1.9 * philox_normal(7, i)[0])) + 1'100;
    samples.push_back(sample);
    sum += sample;
    histogram.add(nanoseconds(sample));
  }
  std::ranges::sort(samples);
  EXPECT_EQ(histogram.count(), kSamples);
  EXPECT_EQ(histogram.sum(), nanoseconds(sum));
  EXPECT_EQ(histogram.largest(), nanoseconds(samples.back()));
  EXPECT_EQ(histogram.quantile(1), nanoseconds(samples.back()));
  for (double share : {0.0, 0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999}) {
    const double rank = std::max(1.0, std::ceil(share * kSamples));
    const auto right = static_cast<double>(samples[static_cast<size_t>(rank) - 1]);
    EXPECT_NEAR(static_cast<double>(histogram.quantile(share).count()), right, 0.03 * right)
        << share;
  }
}

TEST(DurationHistogram, EveryDurationIsRightToThreePercent) {
  for (double duration = 1'024; duration < 1.7e13; duration *= 1.0037) {
    DurationHistogram histogram;
    const nanoseconds exact(static_cast<int64_t>(duration));
    histogram.add(exact);
    histogram.add(hours(10));  // so that the quantile does not come from the largest value
    EXPECT_NEAR(static_cast<double>(histogram.quantile(0.5).count()), duration, 0.03 * duration);
  }
}

TEST(DurationHistogram, TakesWhatIsOutsideItsRange) {
  DurationHistogram histogram;
  histogram.add(nanoseconds(-5));
  histogram.add(nanoseconds(0));
  histogram.add(nanoseconds(3));
  histogram.add(hours(1'000'000));
  EXPECT_LE(histogram.quantile(0.5), nanoseconds(1'024));
  EXPECT_EQ(histogram.largest(), hours(1'000'000));
  EXPECT_EQ(histogram.sum(), nanoseconds(3) + hours(1'000'000));
}

TEST(DurationHistogram, ClearForgets) {
  DurationHistogram histogram;
  histogram.add(hours(1));
  histogram.clear();
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.largest(), nanoseconds(0));
  EXPECT_EQ(histogram.quantile(0.9), nanoseconds(0));
}

}  // namespace
}  // namespace foreload
