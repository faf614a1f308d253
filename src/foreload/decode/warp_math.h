// SPDX-License-Identifier: Apache-2.0
//
// Where the pixels of a turned, sheared or tilted image come from: the matrices of Pillow's
// Image.rotate and of torchvision's affine and perspective, in their order of floating-point
// operations, so that they are the same bits.
//
// Pure functions; any thread may call them.
#pragma once

#include <array>
#include <optional>

#include "foreload/decode/pixels.h"

namespace foreload {

using Point = std::array<double, 2>;  // x, y

// (x, y) of the result comes from (m0 x + m1 y + m2, m3 x + m4 y + m5) of the input.
using AffineMatrix = std::array<double, 6>;

// Of torchvision's affine(): angle and shears in degrees.
struct AffineDraw {
  double angle = 0;
  Point translate{0, 0};
  double scale = 1;
  Point shear{0, 0};
};
// torchvision.transforms and its v2 come to matrices that differ in their last bits.
AffineMatrix inverse_affine(const AffineDraw& draw, const Point& center, bool first_generation);

// Of Pillow's Image.rotate(): either quarter turns, counter-clockwise, which move whole pixels, or
// a matrix and the size of the result.
struct Rotation {
  std::optional<unsigned> quarters;
  AffineMatrix matrix{};
  ImageSize size;
};
Rotation rotation(ImageSize image, double degrees, bool expand, const std::optional<Point>& center);

// (x, y) of the result comes from ((c0 x + c1 y + c2) / d, (c3 x + c4 y + c5) / d) of the input,
// with d = c6 x + c7 y + 1. Takes `start` to `end`, corner by corner; rounded to single precision,
// as torchvision's are.
std::array<double, 8> perspective_coefficients(const std::array<Point, 4>& start,
                                               const std::array<Point, 4>& end);

// Element `index` of torch.linspace(0, end, count), in single precision.
double linspace_from_zero(double end, unsigned count, unsigned index);

}  // namespace foreload
