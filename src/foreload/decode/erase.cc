// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/erase.h"

#include <cmath>
#include <cstring>
#include <numbers>

#include "foreload/decode/row_writer.h"

namespace foreload {
namespace {

// Box and Muller's way from two uniform numbers to a normal one.
float normal(StepRandom& random) {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - random.unit()));
  return static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * random.unit()));
}

void store_as(PixelType type, float value, std::byte* to) {
  if (type == PixelType::float32) {
    std::memcpy(to, &value, sizeof value);
  } else {
    const uint16_t half = type == PixelType::float16 ? to_float16(value) : to_bfloat16(value);
    std::memcpy(to, &half, sizeof half);
  }
}

}  // namespace

void erase(const Erasure& erasure, const OutputForm& form, ImageSize size,
           std::span<std::byte> into) {
  const Region& box = erasure.box;
  const size_t bytes = bytes_of(form.type);
  const size_t pixels = size_t{size.width} * size.height;
  auto noise = erasure.noise;
  for (uint32_t channel = 0; channel < form.channels; ++channel) {
    for (uint32_t y = box.y; y < box.y + box.height; ++y) {
      for (uint32_t x = box.x; x < box.x + box.width; ++x) {
        const size_t pixel = size_t{y} * size.width + x;
        const size_t at =
            form.layout == Layout::chw ? channel * pixels + pixel : pixel * form.channels + channel;
        store_as(form.type, noise ? normal(*noise) : erasure.value[channel], &into[at * bytes]);
      }
    }
  }
}

}  // namespace foreload
