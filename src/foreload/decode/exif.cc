// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/exif.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

namespace foreload {
namespace {

// Numbers of a TIFF block in its own byte order. REQUIRES: the bytes are there.
struct TiffNumbers {
  std::span<const std::byte> bytes;
  bool big_endian;

  uint64_t at(size_t offset, size_t width) const {
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) {
      const auto byte = std::to_integer<uint64_t>(bytes[offset + i]);
      value |= byte << (8 * (big_endian ? width - 1 - i : i));
    }
    return value;
  }
  uint32_t word(size_t offset) const { return static_cast<uint32_t>(at(offset, 4)); }
  bool has(size_t offset, size_t width) const {
    return offset <= bytes.size() && bytes.size() - offset >= width;
  }
};

enum TiffType : uint32_t {
  kTiffByte = 1,
  kTiffText = 2,
  kTiffShort = 3,
  kTiffLong = 4,
  kTiffRational = 5,
  kTiffSignedByte = 6,
  kTiffUndefined = 7,
  kTiffSignedShort = 8,
  kTiffSignedLong = 9,
  kTiffSignedRational = 10,
  kTiffFloat = 11,
  kTiffDouble = 12,
  kTiffDirectory = 13,
  kTiffLong8 = 16,
};

// Bytes of one value; 0 for a type that Pillow does not know.
size_t tiff_width(uint32_t type) {
  switch (type) {
    case kTiffByte:
    case kTiffText:
    case kTiffSignedByte:
    case kTiffUndefined:
      return 1;
    case kTiffShort:
    case kTiffSignedShort:
      return 2;
    case kTiffLong:
    case kTiffSignedLong:
    case kTiffFloat:
    case kTiffDirectory:
      return 4;
    case kTiffRational:
    case kTiffSignedRational:
    case kTiffDouble:
    case kTiffLong8:
      return 8;
    default:
      return 0;
  }
}

int orientation_or_1(uint64_t value) {
  return 1 <= value && value <= 8 ? static_cast<int>(value) : 1;
}

int quotient_or_1(int64_t above, int64_t below) {
  if (below == 0 || above % below != 0 || above / below < 0) return 1;
  return orientation_or_1(static_cast<uint64_t>(above / below));
}

// Pillow compares with whole numbers, so that a number of any type counts, but no text or bytes.
int orientation_at(const TiffNumbers& numbers, uint32_t type, size_t at) {
  switch (type) {
    case kTiffByte:
    case kTiffText:
    case kTiffUndefined:
      return 1;
    case kTiffRational:
      return quotient_or_1(numbers.word(at), numbers.word(at + 4));
    case kTiffSignedRational:
      return quotient_or_1(static_cast<int32_t>(numbers.word(at)),
                           static_cast<int32_t>(numbers.word(at + 4)));
    case kTiffFloat:
    case kTiffDouble: {
      const double value = type == kTiffFloat ? std::bit_cast<float>(numbers.word(at))
                                              : std::bit_cast<double>(numbers.at(at, 8));
      for (int whole = 1; whole <= 8; ++whole) {
        if (value == whole) return whole;
      }
      return 1;
    }
    default:  // the negative ones are large here
      return orientation_or_1(numbers.at(at, tiff_width(type)));
  }
}

// The first entry of this tag that can be read counts. A value of more than four bytes lies
// elsewhere; where the directory, or a value that would fit into the block, ends outside it,
// whatever follows is not looked at.
int first_directory_orientation(const TiffNumbers& numbers) {
  constexpr size_t kEntry = 12;
  constexpr uint64_t kOrientationTag = 0x0112;
  const size_t directory = numbers.word(4);
  if (!numbers.has(directory, 2)) return 0;
  const uint64_t entries = numbers.at(directory, 2);
  uint64_t elsewhere = 0;
  size_t entry = directory + 2;
  for (uint64_t i = 0; i < entries && numbers.has(entry, kEntry); ++i, entry += kEntry) {
    const auto type = static_cast<uint32_t>(numbers.at(entry + 2, 2));
    const uint64_t size = uint64_t{numbers.word(entry + 4)} * tiff_width(type);
    if (size == 0) continue;
    size_t value = entry + 8;
    if (size > 4) {
      elsewhere += size;
      if (elsewhere > numbers.bytes.size()) continue;
      value = numbers.word(entry + 8);
      if (!numbers.has(value, size)) return 0;
    }
    if (numbers.at(entry, 2) == kOrientationTag) return orientation_at(numbers, type, value);
  }
  return 0;
}

}  // namespace

Result<int> exif_orientation(std::span<const std::byte> block) {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  // The second two have the bytes of 42 in the wrong order, the last one is of BigTIFF.
  constexpr std::array<std::string_view, 5> kHeads{
      std::string_view("II*\0", 4), std::string_view("MM\0*", 4), std::string_view("II\0*", 4),
      std::string_view("MM*\0", 4), std::string_view("MM\0+", 4)};
  std::string_view text(reinterpret_cast<const char*>(block.data()), block.size());
  for (int i = 0; i < 2 && text.starts_with(kPrefix); ++i) text.remove_prefix(kPrefix.size());
  if (text.empty()) return 0;
  if (text.size() < 8 || std::ranges::find(kHeads, text.substr(0, 4)) == kHeads.end()) {
    return fail(ErrorKind::invalid,
                "EXIF metadata that is not TIFF; remove it, or set exif_orientation=False");
  }
  return first_directory_orientation({block.last(text.size()), text[0] == 'M'});
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
    return orientation_or_1(static_cast<uint64_t>(value[0] - '0'));
  }
  return 0;
}

}  // namespace foreload
