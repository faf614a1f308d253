// SPDX-License-Identifier: Apache-2.0
//
// From 8-bit pixels to numbers of the output's type: scaled to [0, 1], normalised by channel, laid
// out as asked for. There are only 256 values a channel can have, so tables say what each becomes;
// where SIMD computes faster than it looks up, the computation was compared with the tables first.
//
// Immutable after make(); any thread may use it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "foreload/decode/pixel_kernels.h"
#include "foreload/decode/steps.h"

namespace foreload {

// 1 / divisor to about 48 bits, as the sum of two floats: value * low added to value * high with
// one rounding is the quotient.
struct Reciprocal {
  explicit Reciprocal(float divisor);
  float high;
  float low;
};

// What is computed in single precision: (value / divisor - mean) / std, as torchvision's to_tensor
// and normalize do it one after the other; or (value * (1 / divisor) - mean) / std, as its v2
// does it.
struct ValueMath {
  float divisor = 255;
  std::array<float, 3> mean{0, 0, 0};
  std::array<float, 3> std{1, 1, 1};
  bool reciprocal = false;

  float unit(float value) const;
  // What SIMD kernels compute unit() with.
  Reciprocal unit_factor() const;
};

struct RowWriter {
  PixelType type = PixelType::uint8;
  Layout layout = Layout::hwc;
  uint32_t channels = 3;
  ValueMath math;
  // Whether fused multiply-adds with reciprocals give the tables' bits for all values.
  bool computable = false;
  // [channel][value]; those of the output's type are filled.
  std::array<std::array<float, 256>, 3> floats{};
  std::array<std::array<uint16_t, 256>, 3> halves{};

  static RowWriter make(PixelType type, Layout layout, uint32_t channels, const ValueMath& math);

  // Bytes from one row to the next, and from one channel to the next in layout chw.
  size_t row_bytes(ImageSize size) const;
  size_t plane_bytes(ImageSize size) const;
};

// Round to nearest, ties to even, as torch converts.
uint16_t to_float16(float value);
uint16_t to_bfloat16(float value);

}  // namespace foreload
