// SPDX-License-Identifier: Apache-2.0
//
// What the fuzz targets of image formats share: a file is decoded whole, then in a part whose place
// its last bytes decide; both must agree, and the part is read to its last byte.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "foreload/decode/image_format.h"

namespace foreload {

// Small, so that a run is short whatever the file declares.
constexpr uint64_t kMostPixels = 1 << 15;

class LastBytes {
 public:
  explicit LastBytes(std::span<const std::byte> file) : rest_(file) {}
  // From 0 to limit - 1.
  uint32_t below(uint32_t limit) {
    uint32_t value = 0;
    for (int i = 0; i < 2 && !rest_.empty(); ++i) {
      value = value << 8 | std::to_integer<uint32_t>(rest_.back());
      rest_ = rest_.first(rest_.size() - 1);
    }
    return value % limit;
  }

 private:
  std::span<const std::byte> rest_;
};

inline void decode_in_two_ways(std::span<const std::byte> file, std::string_view format) {
  const ImageFormat* const found = format_of(file);
  if (found == nullptr || found->name != format) return;
  LastBytes last(file);
  constexpr std::array kModes{ColorMode::rgb, ColorMode::grey, ColorMode::rgba};
  const DecodeOptions options{.mode = kModes[last.below(kModes.size())],
                              .exif_orientation = last.below(2) == 0,
                              .wide = last.below(4) == 0,
                              .most_pixels = kMostPixels};
  const auto header = read_header(file, options);
  if (!header) return;
  const unsigned shrink = header->shrinks ? 1u << last.below(4) : 1;
  const ImageSize upright = header->upright();
  const ImageSize size{(upright.width + shrink - 1) / shrink,
                       (upright.height + shrink - 1) / shrink};
  Region region{last.below(size.width), last.below(size.height), 1, 1};
  region.width += last.below(size.width - region.x);
  region.height += last.below(size.height - region.y);

  Scratch scratch;
  PixelBuffer whole, part;
  const bool all =
      decode(file, *header, options, {0, 0, size.width, size.height}, shrink, whole, scratch)
          .has_value();
  const bool some = decode(file, *header, options, region, shrink, part, scratch).has_value();
  // Of WebP, what is below the part is not looked at.
  if (all != some && (all || format != "WebP")) std::abort();
  if (!all) return;
  const size_t row = size_t{region.width} * part.channels();
  const size_t before = size_t{region.x} * part.channels();
  for (uint32_t y = 0; y < region.height; ++y) {
    if (std::memcmp(part.row(y), whole.row(region.y + y) + before, row) != 0) std::abort();
  }
}

}  // namespace foreload
