// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/color_jitter.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace foreload {
namespace {

// Pillow's weights of red, green and blue, in 1/65536.
uint32_t grey_of(const uint8_t* pixel) {
  return (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16;
}

// Pillow's Image.blend: in single precision, truncated, and cut off to 0 and 255 beyond the two.
uint8_t blend(int plain, int value, float factor) {
  const float mixed = static_cast<float>(plain) + factor * static_cast<float>(value - plain);
  return static_cast<uint8_t>(static_cast<int>(std::min(std::max(mixed, 0.0f), 255.0f)));
}

using Table = std::array<uint8_t, 256>;

Table blend_table(int plain, float factor) {
  Table table;
  for (int value = 0; value < 256; ++value) table[value] = blend(plain, value, factor);
  return table;
}

void look_up(const Table& table, PixelBuffer& pixels) {
  const size_t bytes = size_t{pixels.size().width} * pixels.channels();
  for (uint32_t y = 0; y < pixels.size().height; ++y) {
    uint8_t* row = pixels.row(y);
    for (size_t i = 0; i < bytes; ++i) row[i] = table[row[i]];
  }
}

// The mean of the grey form, rounded as Pillow's ImageEnhance.Contrast does.
int mean_grey(PixelBuffer& pixels) {
  const ImageSize size = pixels.size();
  uint64_t sum = 0;
  for (uint32_t y = 0; y < size.height; ++y) {
    const uint8_t* row = pixels.row(y);
    uint32_t of_row = 0;
    if (pixels.channels() == 1) {
      for (uint32_t x = 0; x < size.width; ++x) of_row += row[x];
    } else {
      for (uint32_t x = 0; x < size.width; ++x) of_row += grey_of(row + size_t{3} * x);
    }
    sum += of_row;
  }
  const double count = static_cast<double>(size.width) * size.height;
  return static_cast<int>(static_cast<double>(sum) / count + 0.5);
}

void saturate(float factor, PixelBuffer& pixels) {
  if (pixels.channels() == 1) return;  // grey already: both images are the same
  // Loops of a fixed length, over the end of the row too, are ones that compilers vectorise. They
  // touch up to 15 pixels after it, fewer than the 64 bytes that a PixelBuffer has there.
  constexpr size_t kAtOnce = 16;
  for (uint32_t y = 0; y < pixels.size().height; ++y) {
    uint8_t* pixel = pixels.row(y);
    for (uint32_t x = 0; x < pixels.size().width; x += kAtOnce, pixel += 3 * kAtOnce) {
      std::array<uint8_t, 3 * kAtOnce> grey;
      for (size_t i = 0; i < kAtOnce; ++i) {
        const auto value = static_cast<uint8_t>(grey_of(pixel + 3 * i));
        grey[3 * i] = grey[3 * i + 1] = grey[3 * i + 2] = value;
      }
      for (size_t i = 0; i < 3 * kAtOnce; ++i) pixel[i] = blend(grey[i], pixel[i], factor);
    }
  }
}

}  // namespace

void apply(const JitterDraw& jitter, PixelBuffer& pixels) {
  for (const uint8_t which : jitter.order) {
    const auto factor = static_cast<float>(jitter.factors[which]);
    if (factor == 1.0f) continue;
    if (which == 0) {
      look_up(blend_table(0, factor), pixels);
    } else if (which == 1) {
      look_up(blend_table(mean_grey(pixels), factor), pixels);
    } else {
      saturate(factor, pixels);
    }
  }
}

}  // namespace foreload
