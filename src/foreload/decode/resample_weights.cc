// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/resample_weights.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>

namespace foreload {
namespace {

// The half-width of a filter in input pixels, before shrinking widens it.
double reach_of(Interpolation interpolation) {
  return interpolation == Interpolation::bicubic ? 2.0 : 1.0;
}

double triangle(double x) {
  x = std::abs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

// Keys' cubic with a = -0.5, the polynomials evaluated in Pillow's order.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

// What Pillow derives once per axis. Boxes are single precision there.
struct Filter {
  Filter(const Axis& axis, Interpolation interpolation)
      : from(static_cast<float>(axis.from)),
        scale(static_cast<double>(static_cast<float>(axis.to) - static_cast<float>(axis.from)) /
              axis.outputs),
        widening(std::max(scale, 1.0)),
        support(reach_of(interpolation) * widening),
        input(axis.input) {}

  double center(uint32_t output) const { return from + (output + 0.5) * scale; }

  InputRange range(uint32_t output) const {
    const double middle = center(output);
    // Truncation towards zero, also of negative values, comes before the clamp.
    const auto begin = static_cast<int64_t>(middle - support + 0.5);
    const auto end = static_cast<int64_t>(middle + support + 0.5);
    return {static_cast<uint32_t>(std::max<int64_t>(begin, 0)),
            static_cast<uint32_t>(std::min<int64_t>(end, input))};
  }

  float from;
  double scale;
  double widening;
  double support;
  uint32_t input;
};

// The edges of a nearest-neighbour scan: Pillow adds the step up, output by output, so that
// rounding accumulates and outputs cannot be computed one without the others.
template <class Use>
void scan_nearest(const Axis& axis, Use use) {
  const auto from = static_cast<float>(axis.from);
  const double step = static_cast<double>(static_cast<float>(axis.to) - from) / axis.outputs;
  double at = from + step * 0.5;
  for (uint32_t output = 0; output < axis.first + axis.count; ++output) {
    if (output >= axis.first) {
      use(output - axis.first, std::min(static_cast<uint32_t>(at), axis.input - 1));
    }
    at += step;
  }
}

uint32_t most_taps(const Filter& filter) {
  return static_cast<uint32_t>(std::ceil(filter.support)) * 2 + 1;
}

constexpr size_t round_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

// `taps` are the double weights of one output, normalised here.
void to_fixed_point(std::span<double> taps, double sum, int32_t* out) {
  for (double& tap : taps) {
    if (sum != 0.0) tap /= sum;
    const double scaled = tap * (1 << kWeightBits);
    *out++ = static_cast<int32_t>(tap < 0 ? -0.5 + scaled : 0.5 + scaled);
  }
}

}  // namespace

InputRange inputs_of(const Axis& axis, Interpolation interpolation) {
  assert(axis.count > 0 && axis.first + axis.count <= axis.outputs);
  if (interpolation == Interpolation::nearest) {
    InputRange all{axis.input, 0};
    scan_nearest(axis, [&all](uint32_t, uint32_t input) {
      all = {std::min(all.begin, input), std::max(all.end, input + 1)};
    });
    return all;
  }
  const Filter filter(axis, interpolation);
  return {filter.range(axis.first).begin, filter.range(axis.first + axis.count - 1).end};
}

WeightRoom room_for(const Axis& axis, Interpolation interpolation) {
  const size_t taps = round_up(most_taps(Filter(axis, interpolation)), 4);
  // Kernels step over four outputs at a time.
  const size_t outputs = round_up(axis.count, 4);
  return {taps * outputs, 2 * outputs};
}

AxisWeights compute_weights(const Axis& axis, Interpolation interpolation, bool mirrored,
                            uint32_t origin, uint32_t readable, std::span<int32_t> weights,
                            std::span<uint32_t> bounds) {
  assert(interpolation != Interpolation::nearest);
  const Filter filter(axis, interpolation);
  const size_t padded = round_up(axis.count, 4);
  const auto starts = bounds.subspan(0, padded);
  const auto counts = bounds.subspan(padded, padded);
  uint32_t most = 0;
  for (uint32_t i = 0; i < axis.count; ++i) {
    const InputRange range = filter.range(axis.first + (mirrored ? axis.count - 1 - i : i));
    starts[i] = range.begin - origin;
    counts[i] = range.end - range.begin;
    most = std::max(most, counts[i]);
  }
  const auto stride = static_cast<uint32_t>(round_up(most, 4));
  std::fill_n(weights.begin(), stride * padded, 0);

  constexpr size_t kFew = 32;
  std::array<double, kFew> few;
  std::vector<double> many(most > kFew ? most : 0);
  double* const taps = most > kFew ? many.data() : few.data();
  const double narrowing = 1.0 / filter.widening;
  const bool is_cubic = interpolation == Interpolation::bicubic;
  for (uint32_t i = 0; i < axis.count; ++i) {
    const double center = filter.center(axis.first + (mirrored ? axis.count - 1 - i : i));
    const int64_t start = int64_t{starts[i]} + origin;
    double sum = 0;
    for (uint32_t tap = 0; tap < counts[i]; ++tap) {
      const double x = (static_cast<double>(start + tap) - center + 0.5) * narrowing;
      taps[tap] = is_cubic ? cubic(x) : triangle(x);
      sum += taps[tap];
    }
    const uint32_t excess = starts[i] + stride > readable ? starts[i] + stride - readable : 0;
    const uint32_t shift = std::min(excess, starts[i]);
    to_fixed_point({taps, counts[i]}, sum, &weights[size_t{i} * stride + shift]);
    starts[i] -= shift;
    counts[i] += shift;
  }
  std::fill(starts.begin() + axis.count, starts.end(), starts[axis.count - 1]);
  std::fill(counts.begin() + axis.count, counts.end(), 0);
  return {.outputs = axis.count,
          .stride = stride,
          .starts = starts,
          .counts = counts,
          .weights = weights.subspan(0, stride * padded)};
}

std::vector<Taps> compute_taps(const Axis& axis, Interpolation interpolation) {
  assert(interpolation != Interpolation::nearest);
  const Filter filter(axis, interpolation);
  const double narrowing = 1.0 / filter.widening;
  std::vector<Taps> all(axis.count);
  for (uint32_t i = 0; i < axis.count; ++i) {
    const InputRange range = filter.range(axis.first + i);
    const double center = filter.center(axis.first + i);
    Taps& taps = all[i];
    taps.start = range.begin;
    double sum = 0;
    for (uint32_t input = range.begin; input < range.end; ++input) {
      const double x = (static_cast<double>(input) - center + 0.5) * narrowing;
      taps.weights.push_back(interpolation == Interpolation::bicubic ? cubic(x) : triangle(x));
      sum += taps.weights.back();
    }
    if (sum == 0.0) continue;
    for (double& weight : taps.weights) weight /= sum;
  }
  return all;
}

void compute_nearest(const Axis& axis, bool mirrored, uint32_t origin, std::span<uint32_t> inputs) {
  scan_nearest(axis, [&](uint32_t output, uint32_t input) {
    inputs[mirrored ? axis.count - 1 - output : output] = input - origin;
  });
}

}  // namespace foreload
