// SPDX-License-Identifier: Apache-2.0
//
// Images made by a formula that pillow_reference.py knows too, PNG files of them, and the digests
// and cases that make_pillow_expected.py wrote.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "foreload/decode/pixel_kernels.h"
#include "foreload/decode/pixels.h"

#include "png_maker.h"

namespace foreload {

// Slopes, edges and noise.
inline void make_pixels(PixelBuffer& pixels, ImageSize size, uint32_t channels, uint32_t seed) {
  pixels.reset(size, channels);
  for (uint32_t y = 0; y < size.height; ++y) {
    uint8_t* row = pixels.row(y);
    for (uint32_t x = 0; x < size.width; ++x) {
      for (uint32_t c = 0; c < channels; ++c) {
        uint32_t noise = x * 2654435761u + y * 40503u + c * 69069u + seed * 97u;
        noise = (noise ^ (noise >> 13)) * 1274126177u;
        noise = (noise ^ (noise >> 16)) & 63;
        const uint32_t slope = (x * (c + 1) + y * (3 - c)) / 2 % 160;
        const uint32_t edge = (x / 9 + y / 6 + c) % 3 / 2 * 90;
        const uint32_t value = slope + edge + noise - (noise > 60 ? 30 : 0);
        *row++ = static_cast<uint8_t>(value > 255 ? 255 : value);
      }
    }
  }
}

inline std::vector<std::byte> make_png(ImageSize size, uint32_t channels, uint32_t seed) {
  PixelBuffer pixels;
  make_pixels(pixels, size, channels, seed);
  std::vector<uint8_t> rows;
  for (uint32_t y = 0; y < size.height; ++y) {
    rows.push_back(0);
    rows.insert(rows.end(), pixels.row(y), pixels.row(y) + size_t{size.width} * channels);
  }
  return png_of(size, channels, rows);
}

// FNV-1a.
class Digest {
 public:
  void add(const void* data, size_t bytes) {
    const auto* at = static_cast<const uint8_t*>(data);
    for (size_t i = 0; i < bytes; ++i) value_ = (value_ ^ at[i]) * 0x100000001b3u;
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

inline std::string digest_of(PixelBuffer& pixels) {
  Digest digest;
  for (uint32_t y = 0; y < pixels.size().height; ++y) {
    digest.add(pixels.row(y), size_t{pixels.size().width} * pixels.channels());
  }
  return digest.text();
}

inline std::vector<nlohmann::json> expected_cases(const std::string& name) {
  std::ifstream in(std::filesystem::path(__FILE__).parent_path() / name);
  EXPECT_TRUE(in.good()) << name;
  std::vector<nlohmann::json> cases;
  for (std::string line; std::getline(in, line);) cases.push_back(nlohmann::json::parse(line));
  return cases;
}

inline std::string name_of_kernels(const testing::TestParamInfo<const PixelKernels*>& info) {
  std::string name;
  for (const char* c = info.param->name; *c != 0; ++c) {
    if (std::isalnum(static_cast<unsigned char>(*c)) != 0) name += *c;
  }
  return name;
}

}  // namespace foreload
