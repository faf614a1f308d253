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

// The same with the polynomials evaluated in torch's order.
double torch_cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
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
        input(axis.input),
        is_cubic(interpolation == Interpolation::bicubic),
        rule(axis.rule) {}

  double center(uint32_t output) const { return from + (output + 0.5) * scale; }

  InputRange range(uint32_t output) const {
    const double middle = center(output);
    // Truncation towards zero, also of negative values, comes before the clamp.
    const auto begin = static_cast<int64_t>(middle - support + 0.5);
    const auto end = static_cast<int64_t>(middle + support + 0.5);
    InputRange range{static_cast<uint32_t>(std::max<int64_t>(begin, 0)),
                     static_cast<uint32_t>(std::min<int64_t>(end, input))};
    if (rule == ResizeRule::torch) {
      // torch takes the ceiling in single precision and has no room for more.
      const auto most = static_cast<uint32_t>(std::ceil(static_cast<float>(support))) * 2 + 1;
      range.end = std::min(range.end, range.begin + most);
    }
    return range;
  }

  // The weights of an output, before they are normalised, for the inputs of its range; their sum.
  double weigh(uint32_t output, const InputRange& range, double* weights) const {
    if (!is_cubic) return weigh_by([](double x) { return triangle(x); }, output, range, weights);
    if (rule == ResizeRule::torch)
      return weigh_by([](double x) { return torch_cubic(x); }, output, range, weights);
    return weigh_by([](double x) { return cubic(x); }, output, range, weights);
  }
  template <class Curve>
  double weigh_by(Curve curve, uint32_t output, const InputRange& range, double* weights) const {
    const double middle = center(output);
    const double narrowing = 1.0 / widening;
    double sum = 0;
    for (uint32_t input_at = range.begin; input_at < range.end; ++input_at) {
      *weights = curve((static_cast<double>(input_at) - middle + 0.5) * narrowing);
      sum += *weights++;
    }
    return sum;
  }

  float from;
  double scale;
  double widening;
  double support;
  uint32_t input;
  bool is_cubic;
  ResizeRule rule;
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

// `taps` are the double weights of one output, normalised here, and rounded to `bits` bits after
// the point.
void to_fixed_point(std::span<double> taps, double sum, int bits, int32_t* out) {
  for (double& tap : taps) {
    if (sum != 0.0) tap /= sum;
    const double scaled = tap * (1 << bits);
    const auto rounded = static_cast<int32_t>(tap < 0 ? -0.5 + scaled : 0.5 + scaled);
    *out++ = rounded * (1 << (kWeightBits - bits));
  }
}

// Bits after the point of an axis's weights. torch has words of 16 bits, and as many bits after
// the point as the largest weight of all outputs leaves.
int weight_bits(const Axis& axis, const Filter& filter) {
  if (axis.rule == ResizeRule::pillow) return kWeightBits;
  std::vector<double> weights(most_taps(filter));
  double largest = 0;
  for (uint32_t output = 0; output < axis.outputs; ++output) {
    const InputRange range = filter.range(output);
    const double sum = filter.weigh(output, range, weights.data());
    if (sum == 0.0) continue;
    for (uint32_t i = 0; i < range.end - range.begin; ++i)
      largest = std::max(largest, weights[i] / sum);
  }
  int bits = 0;
  while (bits < kWeightBits && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < (1 << 15))
    ++bits;
  return bits;
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
  const int bits = weight_bits(axis, filter);
  for (uint32_t i = 0; i < axis.count; ++i) {
    const uint32_t start = starts[i] + origin;
    const uint32_t output = axis.first + (mirrored ? axis.count - 1 - i : i);
    const double sum = filter.weigh(output, {start, start + counts[i]}, taps);
    const uint32_t excess = starts[i] + stride > readable ? starts[i] + stride - readable : 0;
    const uint32_t shift = std::min(excess, starts[i]);
    to_fixed_point({taps, counts[i]}, sum, bits, &weights[size_t{i} * stride + shift]);
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
  std::vector<Taps> all(axis.count);
  for (uint32_t i = 0; i < axis.count; ++i) {
    const InputRange range = filter.range(axis.first + i);
    Taps& taps = all[i];
    taps.start = range.begin;
    taps.weights.resize(range.end - range.begin);
    const double sum = filter.weigh(axis.first + i, range, taps.weights.data());
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
