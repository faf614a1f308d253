// SPDX-License-Identifier: Apache-2.0
//
// Turning, shearing and tilting pictures, bit for bit as Pillow's Image.transform and
// Image.transpose: nearest pixels of affine maps are found in fixed point, as Pillow finds them.
//
// For one thread per image.
#pragma once

#include <array>
#include <cstdint>

#include "foreload/decode/pixels.h"
#include "foreload/decode/resample.h"

namespace foreload {

struct Warp {
  // Six numbers of an affine map, or eight of a perspective one; see warp_math.h.
  std::array<double, 8> matrix{};
  bool perspective = false;
  Interpolation interpolation = Interpolation::nearest;
  ImageSize size;  // of the result
  std::array<uint8_t, 3> fill{0, 0, 0};
};
// Counter-clockwise.
struct QuarterTurns {
  unsigned count = 0;
};

// Make a new picture in `out`.
void make_picture(const Warp& op, PixelBuffer& in, PixelBuffer& out);
void make_picture(const QuarterTurns& op, PixelBuffer& in, PixelBuffer& out);

}  // namespace foreload
