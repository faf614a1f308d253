// SPDX-License-Identifier: Apache-2.0
//
// Images whose values are not one or three bytes a pixel: with alpha, of 16 bits, or arrays of
// numbers. They are rare, so one representation serves for all of them: doubles, which hold every
// value of every type exactly. And arrays of .npy files as images, those of bytes too.
//
// Pure functions; any thread may call them, each with a Scratch of its own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/npy.h"
#include "foreload/decode/steps.h"

namespace foreload {

struct NumberImage {
  ImageSize size;
  uint32_t channels = 3;
  std::vector<double> values;  // channels interleaved

  NumberImage() = default;
  NumberImage(ImageSize of_size, uint32_t of_channels)
      : size(of_size),
        channels(of_channels),
        values(size_t{of_size.width} * of_size.height * of_channels) {}
  double* pixel(uint32_t x, uint32_t y) { return &values[(size_t{y} * size.width + x) * channels]; }
  const double* pixel(uint32_t x, uint32_t y) const {
    return &values[(size_t{y} * size.width + x) * channels];
  }
};

// Height x width, or height x width x channels, of this type, in C order. Fails with `invalid` and
// says what the array is instead. What is grey serves for RGB, the other way round not.
Result<ImageSize> check_image(const NpyArray& array, PixelType type, ColorMode mode);
// A region of such an array. REQUIRES: it was checked, and the region lies inside.
NumberImage numbers_of(const NpyArray& array, PixelType type, ColorMode mode, const Region& region);
// All of an array of bytes. REQUIRES: it was checked; rgb or grey.
void pixels_of(const NpyArray& array, ColorMode mode, PixelBuffer& out);

// A region of a decoded image, of bytes, or of words where decode() was asked for them.
NumberImage numbers_of(const PixelView& pixels, const Region& region, bool wide);

}  // namespace foreload
