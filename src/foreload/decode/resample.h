// SPDX-License-Identifier: Apache-2.0
//
// Resizing with antialiasing, bit for bit as Pillow's Image.resize(size, BILINEAR or BICUBIC, box)
// of 8-bit images: a horizontal and a vertical pass with fixed-point weights, each rounded to 8
// bits. SIMD where the machine has it, chosen at run time; every choice gives the same bits.
//
// Any thread may call these functions, each with a Scratch of its own.
#pragma once

#include <cstdint>

#include "foreload/base/result.h"
#include "foreload/decode/pixels.h"

namespace foreload {

struct PixelKernels;

enum class Interpolation : uint8_t { nearest, bilinear, bicubic };
// Whose weights a resize has: those of Pillow's images, or those of torch's CPU tensors of 8 bits
// with antialias=True, which have 16 bits and are applied to columns first.
enum class ResizeRule : uint8_t { pillow, torch };

// Resizes the part of `in` inside `box` to `size`, flipped left to right if wanted (the flip costs
// nothing and equals flipping the result). REQUIRES: box inside `in` and not empty; size not empty;
// `out` and `in` are different memory; at least 64 bytes may be read after each row of `in`, as in
// a PixelBuffer.
void resample(const PixelView& in, const Box& box, ImageSize size, Interpolation interpolation,
              bool flip, PixelBuffer& out, Scratch& scratch);
// The same with kernels of the caller's choice; see pixel_kernels.h.
void resample(const PixelView& in, const Box& box, ImageSize size, Interpolation interpolation,
              bool flip, PixelBuffer& out, Scratch& scratch, const PixelKernels& kernels);

}  // namespace foreload
