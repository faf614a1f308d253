// SPDX-License-Identifier: Apache-2.0
//
// Rows of pixels from one colour model to another with Pillow's arithmetic, bit for bit. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foreload {

// Luma of ITU-R 601-2 in 16-bit fixed point, as Pillow's convert("L").
constexpr uint8_t grey_of(uint32_t red, uint32_t green, uint32_t blue) {
  return static_cast<uint8_t>((red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16);
}

void rgb_to_grey(const uint8_t* rgb, size_t pixels, uint8_t* grey);

// From CMYK as JPEG files hold it, 255 standing for no ink (Adobe's convention, which Pillow takes
// for granted too).
void inverted_cmyk_to_rgb(const uint8_t* cmyk, size_t pixels, uint8_t* rgb);
void inverted_cmyk_to_grey(const uint8_t* cmyk, size_t pixels, uint8_t* grey);

}  // namespace foreload
