// SPDX-License-Identifier: Apache-2.0
//
// What cannot be done row by row while an image is resized: it needs the whole picture of 8 bits
// per channel, in one channel or three. A pass of a sample's plan ends with a list of these.
//
// Pictures are for one thread each.
#pragma once

#include <array>
#include <cstdint>
#include <variant>

#include "foreload/decode/color_ops.h"
#include "foreload/decode/pixels.h"
#include "foreload/decode/steps.h"
#include "foreload/decode/warp.h"

namespace foreload {

// A gaussian of kernel[0] x kernel[1] pixels, which sees the picture mirrored beyond its edges.
struct Blur {
  std::array<uint32_t, 2> kernel{3, 3};
  double sigma = 1;
};
// Padding with what the picture holds. Constant padding is part of a pass.
struct MirrorPad {
  std::array<uint32_t, 4> padding{0, 0, 0, 0};  // left, top, right, bottom
  PaddingMode mode = PaddingMode::edge;
};
// One color in a part of the picture.
struct EraseBox {
  Region box;
  std::array<uint8_t, 3> value{0, 0, 0};
};

using PictureOp = std::variant<JitterDraw, ColorTable, AutoContrast, Equalize, Grey, Sharpen, Blur,
                               Warp, QuarterTurns, MirrorPad, EraseBox>;

// Whether it gives the same picture before a flip as after it.
bool commutes_with_flips(const PictureOp& op);
ImageSize size_after(const PictureOp& op, ImageSize size);

// Changes `picture`, or makes a new one in `spare` and swaps the two.
void apply(const PictureOp& op, PixelBuffer*& picture, PixelBuffer*& spare);

}  // namespace foreload
