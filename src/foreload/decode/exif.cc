// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/exif.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace foreload {
namespace {

// Numbers of a TIFF block in its own byte order. REQUIRES: the bytes are there.
struct TiffNumbers {
  std::span<const std::byte> bytes;
  bool big_endian;

  uint32_t at(size_t offset, size_t width) const {
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i) {
      const auto byte = std::to_integer<uint32_t>(bytes[offset + i]);
      value |= byte << (8 * (big_endian ? width - 1 - i : i));
    }
    return value;
  }
};

bool known(uint32_t orientation) {
  return 1 <= orientation && orientation <= 8;
}

}  // namespace

int tiff_orientation(std::span<const std::byte> tiff) {
  constexpr size_t kHead = 8;
  constexpr size_t kEntry = 12;
  constexpr uint32_t kOrientationTag = 0x0112;
  if (tiff.size() < kHead) return 0;
  const std::string_view order(reinterpret_cast<const char*>(tiff.data()), 4);
  if (order != std::string_view("II*\0", 4) && order != std::string_view("MM\0*", 4)) return 0;
  const TiffNumbers numbers{tiff, order[0] == 'M'};
  const size_t directory = numbers.at(4, 4);
  if (directory > tiff.size() || tiff.size() - directory < 2) return 0;
  const size_t entries =
      std::min<size_t>(numbers.at(directory, 2), (tiff.size() - directory - 2) / kEntry);
  int found = 0;
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntry;
    if (numbers.at(entry, 2) != kOrientationTag || numbers.at(entry + 4, 4) != 1) continue;
    const uint32_t type = numbers.at(entry + 2, 2);
    const bool is_short = type == 3 || type == 8;
    const bool is_long = type == 4 || type == 9;
    if (!is_short && !is_long) continue;
    const uint32_t value = numbers.at(entry + 8, is_short ? 2 : 4);
    found = known(value) ? static_cast<int>(value) : 1;
  }
  return found;
}

int xmp_orientation(std::span<const std::byte> xmp) {
  constexpr std::string_view kName = "tiff:Orientation";
  std::string_view text(reinterpret_cast<const char*>(xmp.data()), xmp.size());
  for (size_t at = text.find(kName); at != std::string_view::npos; at = text.find(kName)) {
    text.remove_prefix(at + kName.size());
    std::string_view value = text;
    if (value.starts_with("=\"")) {
      value.remove_prefix(2);
    } else if (value.starts_with(">")) {
      value.remove_prefix(1);
    } else {
      continue;
    }
    if (value.empty() || value[0] < '0' || value[0] > '9') continue;
    const auto digit = static_cast<uint32_t>(value[0] - '0');
    return known(digit) ? static_cast<int>(digit) : 1;
  }
  return 0;
}

}  // namespace foreload
