// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/number_image.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace foreload {
namespace {

struct NamedType {
  std::string_view code;  // as in a .npy header, byte order apart
  PixelType type;
};
constexpr std::array<NamedType, 7> kTypes{{{"u1", PixelType::uint8},
                                           {"u2", PixelType::uint16},
                                           {"i2", PixelType::int16},
                                           {"i4", PixelType::int32},
                                           {"f2", PixelType::float16},
                                           {"f4", PixelType::float32},
                                           {"f8", PixelType::float64}}};

std::string name_of_dtype(std::string_view dtype) {
  for (const NamedType& known : kTypes) {
    if (dtype.substr(1) == known.code) return std::string(name_of(known.type));
  }
  return fmt::format("'{}'", dtype);
}

bool is_type(std::string_view dtype, PixelType type) {
  return std::ranges::any_of(kTypes, [&](const NamedType& known) {
    return dtype.substr(1) == known.code && known.type == type;
  });
}

double from_float16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  double value = 0;
  if (exponent == 31) {
    value = fraction == 0 ? std::numeric_limits<double>::infinity()
                          : std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    value = fraction * 0x1p-24;
  } else {
    value = (1024 + fraction) * 0x1p-25 * static_cast<double>(1u << exponent);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <class Number>
Number load(const std::byte* from, bool swap) {
  std::array<std::byte, sizeof(Number)> bytes;
  std::memcpy(bytes.data(), from, sizeof(Number));
  if (swap) std::ranges::reverse(bytes);
  return std::bit_cast<Number>(bytes);
}

double number_at(const std::byte* from, PixelType type, bool swap) {
  switch (type) {
    case PixelType::uint8:
      return std::to_integer<uint8_t>(*from);
    case PixelType::uint16:
      return load<uint16_t>(from, swap);
    case PixelType::int16:
      return load<int16_t>(from, swap);
    case PixelType::int32:
      return load<int32_t>(from, swap);
    case PixelType::float16:
      return from_float16(load<uint16_t>(from, swap));
    case PixelType::float32:
      return load<float>(from, swap);
    case PixelType::float64:
      return load<double>(from, swap);
    case PixelType::bfloat16:
      break;  // no file holds it
  }
  return 0;
}

// Whether the bytes of numbers are in the other order than the machine's.
bool swapped(std::string_view dtype) {
  return dtype[0] == (std::endian::native == std::endian::little ? '>' : '<');
}

uint32_t channels_in(const NpyArray& array) {
  return array.shape.size() == 3 ? static_cast<uint32_t>(array.shape[2]) : 1;
}

}  // namespace

Result<ImageSize> check_image(const NpyArray& array, PixelType type, ColorMode mode) {
  constexpr uint64_t kLongestSide = std::numeric_limits<int32_t>::max();
  const uint32_t channels = channels_of(mode);
  const auto& shape = array.shape;
  const bool grey = shape.size() == 2 || (shape.size() == 3 && shape[2] == 1);
  const bool fits =
      (grey && mode != ColorMode::rgba) || (shape.size() == 3 && shape[2] == channels);
  const bool sized = fits && std::ranges::all_of(shape, [](uint64_t side) {
                       return side > 0 && side <= kLongestSide;
                     });
  if (!sized || !is_type(array.dtype, type)) {
    return fail(ErrorKind::invalid,
                fmt::format("its array is {} of shape ({}), but the transform decodes {} of height "
                            "x width{}; give Decode the array's mode and dtype (uint8, uint16, "
                            "int16, int32, float16, float32 or float64), or use a function",
                            name_of_dtype(array.dtype), fmt::join(shape, ", "), name_of(type),
                            channels == 1 ? "" : fmt::format(" x {}", channels)));
  }
  if (array.fortran_order && shape.size() > 1) {
    return fail(ErrorKind::invalid,
                "its array is in Fortran order; save numpy.ascontiguousarray of it");
  }
  return ImageSize{static_cast<uint32_t>(shape[1]), static_cast<uint32_t>(shape[0])};
}

NumberImage numbers_of(const NpyArray& array, PixelType type, ColorMode mode,
                       const Region& region) {
  NumberImage image({region.width, region.height}, channels_of(mode));
  const uint32_t stored = channels_in(array);
  const size_t width = array.shape[1];
  const size_t bytes = bytes_of(type);
  const bool swap = swapped(array.dtype);
  double* to = image.values.data();
  for (size_t y = region.y; y < region.y + region.height; ++y) {
    const std::byte* from = array.data.data() + (y * width + region.x) * stored * bytes;
    for (uint32_t x = 0; x < region.width; ++x, from += stored * bytes) {
      for (uint32_t channel = 0; channel < image.channels; ++channel) {
        *to++ = number_at(from + (stored == 1 ? 0 : channel) * bytes, type, swap);
      }
    }
  }
  return image;
}

void pixels_of(const NpyArray& array, ColorMode mode, PixelBuffer& out) {
  const ImageSize size{static_cast<uint32_t>(array.shape[1]),
                       static_cast<uint32_t>(array.shape[0])};
  const uint32_t channels = channels_of(mode);
  const uint32_t stored = channels_in(array);
  out.reset(size, channels);
  const auto* from = reinterpret_cast<const uint8_t*>(array.data.data());
  for (uint32_t y = 0; y < size.height; ++y, from += size_t{size.width} * stored) {
    uint8_t* const row = out.row(y);
    if (stored == channels) {
      std::memcpy(row, from, size_t{size.width} * channels);
      continue;
    }
    for (uint32_t x = 0; x < size.width; ++x)
      std::memset(row + size_t{x} * channels, from[x], channels);
  }
}

NumberImage numbers_of(const PixelView& pixels, const Region& region, bool wide) {
  NumberImage image({region.width, region.height}, wide ? pixels.channels / 2 : pixels.channels);
  const size_t count = size_t{region.width} * image.channels;
  double* to = image.values.data();
  for (uint32_t y = 0; y < region.height; ++y, to += count) {
    const uint8_t* from = pixels.row(region.y + y) + size_t{region.x} * pixels.channels;
    for (size_t i = 0; i < count; ++i) {
      if (wide) {
        uint16_t word;
        std::memcpy(&word, from + 2 * i, sizeof word);
        to[i] = word;
      } else {
        to[i] = from[i];
      }
    }
  }
  return image;
}

}  // namespace foreload
