// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/row_writer.h"

#include <bit>
#include <cmath>
#include <limits>

namespace foreload {
namespace {

// Division by a constant as SIMD kernels do it. Nearly always the correctly rounded quotient;
// make() checks.
float times(float value, const Reciprocal& reciprocal) {
  return std::fma(value, reciprocal.high, value * reciprocal.low);
}

}  // namespace

Reciprocal::Reciprocal(float divisor)
    : high(1.0f / divisor), low(static_cast<float>(1.0 / double{divisor} - double{high})) {}

float ValueMath::unit(float value) const {
  return reciprocal ? value * static_cast<float>(1.0 / double{divisor}) : value / divisor;
}

Reciprocal ValueMath::unit_factor() const {
  Reciprocal factor(divisor);
  if (reciprocal) {
    factor.high = static_cast<float>(1.0 / double{divisor});
    factor.low = 0;
  }
  return factor;
}

uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::bit_cast<float>(bits & 0x7fffffff);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 65520.0f) return static_cast<uint16_t>(sign | 0x7c00);
  if (magnitude < 0x1p-14f) {
    // Subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits.
    const auto aligned = std::bit_cast<uint32_t>(magnitude + 0.5f);
    return static_cast<uint16_t>(sign | (aligned - std::bit_cast<uint32_t>(0.5f)));
  }
  uint32_t rounded = std::bit_cast<uint32_t>(magnitude);
  rounded += 0xfff + ((rounded >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (uint32_t{127 - 15} << 10)));
}

uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

RowWriter RowWriter::make(PixelType type, Layout layout, uint32_t channels, const ValueMath& math) {
  RowWriter writer{.type = type, .layout = layout, .channels = channels, .math = math};
  writer.computable = true;
  for (uint32_t channel = 0; channel < channels; ++channel) {
    for (uint32_t value = 0; value < 256; ++value) {
      const auto input = static_cast<float>(value);
      const float unit = math.unit(input);
      const float result = (unit - math.mean[channel]) / math.std[channel];
      writer.floats[channel][value] = result;
      writer.halves[channel][value] =
          type == PixelType::bfloat16 ? to_bfloat16(result) : to_float16(result);
      const float computed = times(times(input, math.unit_factor()) - math.mean[channel],
                                   Reciprocal(math.std[channel]));
      writer.computable &= std::bit_cast<uint32_t>(computed) == std::bit_cast<uint32_t>(result);
    }
  }
  return writer;
}

size_t RowWriter::row_bytes(ImageSize size) const {
  return size_t{size.width} * bytes_of(type) * (layout == Layout::hwc ? channels : 1);
}

size_t RowWriter::plane_bytes(ImageSize size) const {
  return size_t{size.width} * size.height * bytes_of(type);
}

}  // namespace foreload
