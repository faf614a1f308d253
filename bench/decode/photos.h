// SPDX-License-Identifier: Apache-2.0
//
// JPEG files like those of a photo collection, and crops like those of training: what the decoding
// benchmarks run on. Made from seeds, so that every run measures the same work.
#pragma once

#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "foreload/base/random.h"
#include "foreload/decode/pixels.h"

namespace foreload {

inline double unit_random(uint64_t seed, uint64_t counter) {
  return static_cast<double>(philox(seed, counter)[0]) * 0x1p-32;
}

// Smooth noise in octaves, as landscapes have it, and some grain.
inline std::vector<uint8_t> photo_pixels(ImageSize size, uint64_t seed) {
  std::vector<uint8_t> pixels;
  pixels.reserve(size_t{size.width} * size.height * 3);
  const auto lattice = [&](uint64_t octave, uint64_t x, uint64_t y, uint64_t channel) {
    const uint64_t key = ((octave * 4096 + x) * 4096 + y) * 4 + channel;
    return static_cast<double>(mix64(key + seed * 0x9e3779b97f4a7c15u) >> 40) * 0x1p-24 - 0.5;
  };
  constexpr uint64_t kOctaves = 6;
  std::array<double, kOctaves> cells, strengths;
  for (uint64_t octave = 0; octave < kOctaves; ++octave) {
    cells[octave] = std::exp2(static_cast<double>(octave)) * 3;
    strengths[octave] = 200 / std::pow(static_cast<double>(octave) + 1, 0.9);
  }
  for (uint32_t y = 0; y < size.height; ++y) {
    for (uint32_t x = 0; x < size.width; ++x) {
      const uint64_t grain = mix64(seed ^ (uint64_t{y} << 32 | x) * 0x2545f4914f6cdd1du);
      for (uint64_t channel = 0; channel < 3; ++channel) {
        double value = 128;
        for (uint64_t octave = 0; octave < kOctaves; ++octave) {
          const double u = x * cells[octave] / size.width, v = y * cells[octave] / size.width;
          const auto i = static_cast<uint64_t>(u), j = static_cast<uint64_t>(v);
          const double across = u - std::floor(u), down = v - std::floor(v);
          const double top =
              std::lerp(lattice(octave, i, j, channel), lattice(octave, i + 1, j, channel), across);
          const double bottom = std::lerp(lattice(octave, i, j + 1, channel),
                                          lattice(octave, i + 1, j + 1, channel), across);
          value += std::lerp(top, bottom, down) * strengths[octave];
        }
        value += static_cast<double>(grain % 32) - 16;
        pixels.push_back(static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)));
      }
    }
  }
  return pixels;
}

// 4:2:0, as cameras and the web write it.
inline std::vector<std::byte> photo(ImageSize size, uint64_t seed, int quality, bool progressive) {
  std::vector<uint8_t> pixels = photo_pixels(size, seed);
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
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (uint32_t y = 0; y < size.height; ++y) {
    JSAMPROW row = pixels.data() + size_t{y} * size.width * 3;
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* const first = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> file(first, first + bytes);
  std::free(memory);
  return file;
}

// As torchvision's RandomResizedCrop draws them with its defaults.
inline Region training_crop(ImageSize size, uint64_t seed) {
  const double area = static_cast<double>(size.width) * size.height;
  for (uint64_t i = 0; i < 10; ++i) {
    const double wanted = area * (0.08 + 0.92 * unit_random(seed, 3 * i));
    const double ratio =
        std::exp(std::log(3.0 / 4) + unit_random(seed, 3 * i + 1) * 2 * std::log(4.0 / 3));
    const auto width = static_cast<uint32_t>(std::lround(std::sqrt(wanted * ratio)));
    const auto height = static_cast<uint32_t>(std::lround(std::sqrt(wanted / ratio)));
    if (width == 0 || height == 0 || width > size.width || height > size.height) continue;
    const auto place = philox(seed, 3 * i + 2);
    return {place[0] % (size.width - width + 1), place[1] % (size.height - height + 1), width,
            height};
  }
  return {0, 0, size.width, size.height};
}

}  // namespace foreload
