// SPDX-License-Identifier: Apache-2.0
//
// The ways to resize, with antialiasing: bit for bit as Pillow's Image.resize(size, BILINEAR or
// BICUBIC, box) of 8-bit images (row_resampler.h), a horizontal and a vertical pass with
// fixed-point weights, each rounded to 8 bits; or as torch.
#pragma once

#include <cstdint>

namespace foreload {

enum class Interpolation : uint8_t { nearest, bilinear, bicubic };
// Whose weights a resize has: those of Pillow's images, or those of torch's CPU tensors of 8 bits
// with antialias=True, which have 16 bits and are applied to columns first.
enum class ResizeRule : uint8_t { pillow, torch };

}  // namespace foreload
