// SPDX-License-Identifier: Apache-2.0
//
// Resizing with antialiasing, bit for bit as Pillow's Image.resize(size, BILINEAR or BICUBIC, box)
// of 8-bit images: a horizontal and a vertical pass with fixed-point weights, each rounded to 8
// bits. SIMD where the machine has it, chosen at run time; every choice gives the same bits.
#pragma once

#include <cstdint>

#include "foreload/base/result.h"
#include "foreload/decode/pixels.h"

namespace foreload {

enum class Interpolation : uint8_t { nearest, bilinear, bicubic };

// Resizes the part of `in` inside `box` to `size`, flipped left to right if wanted (the flip costs
// nothing and equals flipping the result). REQUIRES: box inside `in` and not empty; size not empty;
// `out` and `in` are different memory.
void resample(const PixelView& in, const Box& box, ImageSize size, Interpolation interpolation,
              bool flip, PixelBuffer& out, Scratch& scratch);

}  // namespace foreload
