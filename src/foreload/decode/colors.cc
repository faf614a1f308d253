// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/colors.h"

namespace foreload {
namespace {

// a * b / 255, rounded to the nearest.
constexpr uint32_t scaled(uint32_t a, uint32_t b) {
  const uint32_t product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

// What a paper of `light` (255: no black ink) shows of a colour whose inverted ink is `clear`.
constexpr uint8_t shown(uint32_t clear, uint32_t light) {
  return static_cast<uint8_t>(light - scaled(255 - clear, light));
}

}  // namespace

void rgb_to_grey(const uint8_t* rgb, size_t pixels, uint8_t* grey) {
  for (size_t i = 0; i < pixels; ++i, rgb += 3) grey[i] = grey_of(rgb[0], rgb[1], rgb[2]);
}

void inverted_cmyk_to_rgb(const uint8_t* cmyk, size_t pixels, uint8_t* rgb) {
  for (size_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    rgb[0] = shown(cmyk[0], cmyk[3]);
    rgb[1] = shown(cmyk[1], cmyk[3]);
    rgb[2] = shown(cmyk[2], cmyk[3]);
  }
}

void inverted_cmyk_to_grey(const uint8_t* cmyk, size_t pixels, uint8_t* grey) {
  for (size_t i = 0; i < pixels; ++i, cmyk += 4) {
    grey[i] = grey_of(shown(cmyk[0], cmyk[3]), shown(cmyk[1], cmyk[3]), shown(cmyk[2], cmyk[3]));
  }
}

}  // namespace foreload
