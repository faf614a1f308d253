// SPDX-License-Identifier: Apache-2.0
//
// JPEG files that look like photographs to a resize: waves in all directions whose strength grows
// with their length, as in nature, and some edges.
#pragma once

#include <jpeglib.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numbers>
#include <vector>

#include "foreload/base/random.h"
#include "foreload/decode/pixels.h"

namespace foreload {

inline void make_photo(PixelBuffer& pixels, ImageSize size, uint64_t seed) {
  constexpr size_t kWaves = 20;
  constexpr size_t kPatches = 12;
  struct Wave {
    float x, y, phase, strength[3];
  };
  struct Patch {
    uint32_t left, top, right, bottom;
    float color[3];
  };
  const auto unit = [seed](uint64_t i, unsigned word) {
    return static_cast<float>(philox(seed, i)[word]) * 0x1p-32f;
  };
  std::vector<Wave> waves(kWaves);
  for (uint64_t i = 0; i < kWaves; ++i) {
    const float length = 3 * std::pow(1.3f, static_cast<float>(i));  // 3 to 440 pixels
    const float angle = 2 * std::numbers::pi_v<float> * unit(i, 0);
    const float pace = 2 * std::numbers::pi_v<float> / length;
    const float strength = 0.35f * std::pow(length, 0.8f);
    waves[i] = {pace * std::cos(angle),
                pace * std::sin(angle),
                6.3f * unit(i, 1),
                {strength, strength * (0.6f + 0.4f * unit(i, 2)), strength * unit(i, 3)}};
  }
  std::vector<Patch> patches(kPatches);
  for (uint64_t i = 0; i < kPatches; ++i) {
    const auto left = static_cast<uint32_t>(unit(100 + i, 0) * static_cast<float>(size.width));
    const auto top = static_cast<uint32_t>(unit(100 + i, 1) * static_cast<float>(size.height));
    patches[i] = {
        left,
        top,
        left + 10 + size.width / 5,
        top + 10 + size.height / 5,
        {60 * unit(200 + i, 0) - 30, 60 * unit(200 + i, 1) - 30, 60 * unit(200 + i, 2) - 30}};
  }
  pixels.reset(size, 3);
  for (uint32_t y = 0; y < size.height; ++y) {
    uint8_t* row = pixels.row(y);
    for (uint32_t x = 0; x < size.width; ++x) {
      float color[3] = {120, 115, 105};
      for (const Wave& wave : waves) {
        const float height =
            std::sin(wave.x * static_cast<float>(x) + wave.y * static_cast<float>(y) + wave.phase);
        for (int c = 0; c < 3; ++c) color[c] += height * wave.strength[c];
      }
      for (const Patch& patch : patches) {
        if (x < patch.left || x >= patch.right || y < patch.top || y >= patch.bottom) continue;
        for (int c = 0; c < 3; ++c) color[c] += patch.color[c];
      }
      for (int c = 0; c < 3; ++c) {
        *row++ = static_cast<uint8_t>(std::fmin(255.0f, std::fmax(0.0f, color[c])));
      }
    }
  }
}

inline std::vector<std::byte> make_photo_jpeg(ImageSize size, uint64_t seed, int quality = 92) {
  PixelBuffer pixels;
  make_photo(pixels, size, seed);
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
  jpeg_mem_dest(&info, &memory, &bytes);
  info.image_width = size.width;
  info.image_height = size.height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, quality, TRUE);
  jpeg_start_compress(&info, TRUE);
  for (uint32_t y = 0; y < size.height; ++y) {
    JSAMPROW rows[] = {pixels.row(y)};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* const begin = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> file(begin, begin + bytes);
  std::free(memory);
  return file;
}

}  // namespace foreload
