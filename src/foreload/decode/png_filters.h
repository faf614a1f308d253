// SPDX-License-Identifier: Apache-2.0
//
// PNG's filters, undone in place. For png.cc only. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foreload {

enum class PngFilter : uint8_t { none, left, up, average, paeth };
constexpr uint8_t kPngFilters = 5;

// Whether a row with this filter can be had without the row above it.
constexpr bool stands_alone(PngFilter filter) {
  return filter == PngFilter::none || filter == PngFilter::left;
}

// Undoes the filter of the first `bytes` bytes of a row. `above` is the row above without its
// filter; null for the first row. Pixels are `pixel_bytes` apart (1, 2, 3, 4, 6 or 8). REQUIRES:
// `bytes` are whole pixels, and 8 bytes after either row may be read.
void undo_filter(PngFilter filter, uint32_t pixel_bytes, uint8_t* row, const uint8_t* above,
                 size_t bytes);

}  // namespace foreload
