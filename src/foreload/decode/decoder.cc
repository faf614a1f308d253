// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/decoder.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <string>

#include <fmt/format.h>

#include "foreload/decode/gif.h"
#include "foreload/decode/jpeg.h"
#include "foreload/decode/png.h"
#include "foreload/decode/upright.h"
#include "foreload/decode/webp.h"

namespace foreload {
namespace {

uint32_t shrunk(uint32_t side, unsigned shrink) {
  return (side + shrink - 1) / shrink;
}

[[maybe_unused]] bool inside(const Region& region, ImageSize size) {
  return region.width > 0 && region.height > 0 && region.x < size.width && region.y < size.height &&
         region.width <= size.width - region.x && region.height <= size.height - region.y;
}

// Values of 8 bits as 16, an alpha of all ones behind colours that have none.
void widen(const PixelView& in, const DecodeOptions& options, PixelBuffer& out) {
  const uint32_t channels = channels_of(options.mode);
  out.reset(in.size, options.wide ? 2 * channels : channels);
  for (uint32_t y = 0; y < in.size.height; ++y) {
    const uint8_t* from = in.row(y);
    uint8_t* to = out.row(y);
    for (uint32_t x = 0; x < in.size.width; ++x, from += in.channels) {
      for (uint32_t channel = 0; channel < channels; ++channel) {
        const uint8_t value = channel < in.channels ? from[channel] : 255;
        *to++ = value;
        if (options.wide) *to++ = value;
      }
    }
  }
}

// Decodes what the format can give, and widens that.
Result<void> decode_as(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                       Scratch& scratch) {
  const ImageFormat& format = *from.header.format;
  DecodeOptions given = options;
  given.wide = options.wide && format.gives_wide;
  if (given.mode == ColorMode::rgba && !format.gives_alpha) given.mode = ColorMode::rgb;
  if (given.mode == options.mode && given.wide == options.wide)
    return format.decode(from, given, out, scratch);
  FORELOAD_CHECK(format.decode(from, given, scratch.other, scratch));
  widen(scratch.other.view(), options, out);
  return {};
}

}  // namespace

uint32_t channels_of(ColorMode mode) {
  switch (mode) {
    case ColorMode::rgb:
      return 3;
    case ColorMode::grey:
      return 1;
    case ColorMode::rgba:
      return 4;
  }
  return 0;
}

std::span<const ImageFormat> image_formats() {
  static constexpr std::array kFormats{
      ImageFormat{"JPEG", false, false, is_jpeg, read_jpeg_header, decode_jpeg},
      ImageFormat{"PNG", true, true, is_png, read_png_header, decode_png},
      ImageFormat{"WebP", true, false, is_webp, read_webp_header, decode_webp},
      ImageFormat{"GIF", true, false, is_gif, read_gif_header, decode_gif},
  };
  return kFormats;
}

const ImageFormat* format_of(std::span<const std::byte> file) {
  const auto formats = image_formats();
  const auto found =
      std::ranges::find_if(formats, [file](const ImageFormat& format) { return format.is(file); });
  return found == formats.end() ? nullptr : &*found;
}

std::string decoder_libraries() {
  return fmt::format("{}, {}", jpeg_library(), webp_library());
}

std::string no_known_format() {
  const auto formats = image_formats();
  std::string names;
  for (const ImageFormat& format : formats) {
    if (!names.empty()) names += &format == &formats.back() ? " or " : ", ";
    names += format.name;
  }
  return fmt::format("not a {} image", names);
}

ImageSize ImageHeader::upright() const {
  return upright_size(size, orientation);
}

Result<ImageHeader> read_header(std::span<const std::byte> file, const DecodeOptions& options) {
  const ImageFormat* const format = format_of(file);
  if (format == nullptr)
    return fail(ErrorKind::invalid, file.empty() ? "an empty file" : no_known_format());
  FORELOAD_TRY(ImageHeader header, format->read_header(file, options.exif_orientation));
  header.format = format;
  if (uint64_t{header.size.width} * header.size.height > options.most_pixels) {
    return fail(ErrorKind::invalid,
                fmt::format("declares {} x {} pixels, more than the {} allowed, as in Pillow; "
                            "make a smaller image of it",
                            header.size.width, header.size.height, options.most_pixels));
  }
  return header;
}

Result<void> decode(std::span<const std::byte> file, const ImageHeader& header,
                    const DecodeOptions& options, const Region& region, unsigned shrink,
                    PixelBuffer& out, Scratch& scratch) {
  assert(shrink == 1 || ((shrink == 2 || shrink == 4 || shrink == 8) && header.shrinks));
  assert(header.format != nullptr);
  const ImageSize size{shrunk(header.size.width, shrink), shrunk(header.size.height, shrink)};
  assert(inside(region, upright_size(size, header.orientation)));
  const bool turned = header.orientation != 1;
  const Region stored = stored_region(region, size, header.orientation);
  PixelBuffer& pixels = turned ? scratch.stored : out;
  FORELOAD_CHECK(decode_as({file, header, stored, shrink}, options, pixels, scratch));
  if (turned) turn_upright(pixels.view(), header.orientation, out);
  return {};
}

void warm_up(Scratch& scratch) {
  using namespace std::string_literals;
  static const std::string file =  // 8 x 8 grey pixels: one block without any coefficient
      "\xFF\xD8\xFF\xDB\0\x43\0"s + std::string(64, '\1') +
      "\xFF\xC0\0\x0B\x08\0\x08\0\x08\1\1\x11\0"s + "\xFF\xC4\0\x14\0\1"s + std::string(16, '\0') +
      "\xFF\xC4\0\x14\x10\1"s + std::string(16, '\0') + "\xFF\xDA\0\x08\1\1\0\0\x3F\0\x3F\xFF\xD9"s;
  const std::span bytes = std::as_bytes(std::span(file));
  const ImageHeader header{.format = format_of(bytes), .size = {8, 8}, .shrinks = true};
  [[maybe_unused]] const Result<void> decoded =
      decode(bytes, header, {}, {0, 0, 8, 8}, 1, scratch.decoded, scratch);
  assert(decoded);
}

}  // namespace foreload
