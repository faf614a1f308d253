// SPDX-License-Identifier: Apache-2.0
//
// What a GPU does with decoded images: crop, resize with antialiasing and flip, all images of a
// batch at once. The arithmetic is that of resample.h (Pillow's), so equal pixels give equal bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "foreload/decode/gpu/cuda_driver.h"

namespace foreload::gpu {

// One image, as the kernels read it; written out there a second time.
struct ResizeItem {
  DeviceAddress image = 0;   // its first pixel in the crop, interleaved RGB
  DeviceAddress middle = 0;  // between the passes: `rows` rows of `width` pixels
  DeviceAddress out = 0;
  uint32_t pitch = 0;       // bytes from one row of the image to the next
  uint32_t crop_width = 0;  // nothing outside the crop is used
  uint32_t crop_height = 0;
  uint32_t resized_width = 0;
  uint32_t resized_height = 0;
  int32_t left = 0;  // of the window, in the resized image
  int32_t top = 0;
  uint32_t width = 0;  // of the window
  uint32_t height = 0;
  uint32_t first_row = 0;  // of the crop, that the window needs
  uint32_t rows = 0;
  uint32_t pixel_step = 0;  // bytes from one output pixel to the next, and so on
  uint32_t row_step = 0;
  uint32_t channel_step = 0;
  uint32_t flip = 0;
  uint32_t fill = 0;  // red in the lowest byte
};
static_assert(sizeof(ResizeItem) == 88 && std::is_trivially_copyable_v<ResizeItem>);

// Both kernels take (const ResizeItem* items); blockIdx.y is the item. columns() makes `middle`,
// kRowsPerBlock rows a block, with 4 * kMostTaps bytes of shared memory per thread; rows() makes
// the output, one row a block. Threads step over columns.
inline constexpr unsigned kRowsPerBlock = 16;
inline constexpr unsigned kMostTaps = 44;  // 2 * 20 + 1 for a twentieth, and room
extern const char* const kResizeSource;
inline constexpr char kColumnsKernel[] = "foreload_columns";
inline constexpr char kRowsKernel[] = "foreload_rows";

}  // namespace foreload::gpu
