// SPDX-License-Identifier: Apache-2.0
//
// JPEG files like those of a photo collection, and crops like those of training: what the decoding
// benchmarks run on. Made from seeds, so that every run measures the same work.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "foreload/base/random.h"
#include "foreload/decode/pixels.h"
#include "foreload/photos/jpeg_writer.h"
#include "foreload/photos/photo.h"

namespace foreload {

inline double unit_random(uint64_t seed, uint64_t counter) {
  return static_cast<double>(philox(seed, counter)[0]) * 0x1p-32;
}

inline std::vector<std::byte> photo(ImageSize size, uint64_t seed, int quality, bool progressive) {
  PixelBuffer pixels;
  make_photo(size, seed, seed, pixels);
  return *write_jpeg(pixels.view(), {quality, progressive});
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
