// SPDX-License-Identifier: Apache-2.0
//
// Colors with the arithmetic of Pillow's ImageEnhance and ImageOps, bit for bit. Brightness,
// contrast, saturation and sharpness blend the image with a plainer one (black; its mean grey; its
// grey form; its smoothed form) in single precision and cut off to 8 bits.
//
// For one thread per image.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "foreload/decode/pixels.h"

namespace foreload {

struct JitterDraw {
  std::array<double, 4> factors{1, 1, 1, 0};  // brightness, contrast, saturation, hue
  std::array<uint8_t, 4> order{0, 1, 2, 3};   // indices into `factors`
  // Whether hues are changed. Going to hues and back rounds, also where none changes.
  bool hue = false;
};
// What each value becomes, whatever the channel.
struct ColorTable {
  std::array<uint8_t, 256> values{};

  static ColorTable inverted();
  // REQUIRES: 1 <= bits <= 8.
  static ColorTable posterized(unsigned bits);
  static ColorTable solarized(double threshold);
};
// Each channel stretched to all 256 values.
struct AutoContrast {};
// Each channel's values made equally frequent.
struct Equalize {};

// Change `pixels` in place.
void apply_colors(const JitterDraw& op, PixelBuffer& pixels);
void apply_colors(const ColorTable& op, PixelBuffer& pixels);
void apply_colors(const AutoContrast& op, PixelBuffer& pixels);
void apply_colors(const Equalize& op, PixelBuffer& pixels);

// Grey, in one channel or in three equal ones.
struct Grey {
  uint32_t channels = 1;
};
struct Sharpen {
  double factor = 1;
};

// Make a new picture in `out`.
void make_picture(const Grey& op, PixelBuffer& in, PixelBuffer& out);
void make_picture(const Sharpen& op, PixelBuffer& in, PixelBuffer& out);

}  // namespace foreload
