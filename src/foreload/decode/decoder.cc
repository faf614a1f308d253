// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/decoder.h"

#include <cassert>
#include <string>

#include <fmt/format.h>

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

// Decodes with a decoder of bytes alone: `decode_as(options, into)` gives one byte for each
// channel, and those of a JPEG image never have alpha.
template <class DecodeAs>
Result<void> decode_widened(const DecodeOptions& options, bool has_alpha, PixelBuffer& out,
                            Scratch& scratch, const DecodeAs& decode_as) {
  DecodeOptions plain = options;
  plain.wide = false;
  if (plain.mode == ColorMode::rgba && !has_alpha) plain.mode = ColorMode::rgb;
  if (plain.mode == options.mode && !options.wide) return decode_as(plain, out);
  FORELOAD_CHECK(decode_as(plain, scratch.other));
  widen(scratch.other.view(), options, out);
  return {};
}

Result<ImageHeader> header_of(std::span<const std::byte> file, const DecodeOptions& options) {
  switch (format_of(file)) {
    case ImageFormat::jpeg:
      return read_jpeg_header(file, options.exif_orientation);
    case ImageFormat::png:
      return read_png_header(file, options.exif_orientation);
    case ImageFormat::webp:
      return read_webp_header(file, options.exif_orientation);
    case ImageFormat::other:
      break;
  }
  return fail(ErrorKind::invalid, file.empty() ? "an empty file" : "not a JPEG, PNG or WebP image");
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

std::string_view name_of(ImageFormat format) {
  switch (format) {
    case ImageFormat::jpeg:
      return "JPEG";
    case ImageFormat::png:
      return "PNG";
    case ImageFormat::webp:
      return "WebP";
    case ImageFormat::other:
      return "other";
  }
  return "unknown";
}

ImageFormat format_of(std::span<const std::byte> file) {
  if (is_jpeg(file)) return ImageFormat::jpeg;
  if (is_png(file)) return ImageFormat::png;
  if (is_webp(file)) return ImageFormat::webp;
  return ImageFormat::other;
}

ImageSize ImageHeader::upright() const {
  return upright_size(size, orientation);
}

Result<ImageHeader> read_header(std::span<const std::byte> file, const DecodeOptions& options) {
  FORELOAD_TRY(const ImageHeader header, header_of(file, options));
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
  assert(shrink == 1 || ((shrink == 2 || shrink == 4 || shrink == 8) && !header.lossless));
  const ImageSize size{shrunk(header.size.width, shrink), shrunk(header.size.height, shrink)};
  assert(inside(region, upright_size(size, header.orientation)));
  const bool turned = header.orientation != 1;
  const Region stored = stored_region(region, size, header.orientation);
  PixelBuffer& pixels = turned ? scratch.stored : out;
  switch (header.format) {
    case ImageFormat::jpeg:
      FORELOAD_CHECK(decode_widened(
          options, false, pixels, scratch, [&](const DecodeOptions& plain, PixelBuffer& into) {
            return decode_jpeg(file, header, plain, stored, shrink, into, scratch);
          }));
      break;
    case ImageFormat::png:
      assert(shrink == 1);
      FORELOAD_CHECK(decode_png(file, options, stored, pixels, scratch));
      break;
    case ImageFormat::webp:
      assert(shrink == 1);
      FORELOAD_CHECK(decode_widened(options, true, pixels, scratch,
                                    [&](const DecodeOptions& plain, PixelBuffer& into) {
                                      return decode_webp(file, plain, stored, into, scratch);
                                    }));
      break;
    case ImageFormat::other:
      return fail(ErrorKind::invalid, "not a JPEG, PNG or WebP image");
  }
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
  const ImageHeader header{.format = ImageFormat::jpeg, .size = {8, 8}};
  [[maybe_unused]] const Result<void> decoded =
      decode(bytes, header, {}, {0, 0, 8, 8}, 1, scratch.decoded, scratch);
  assert(decoded);
}

}  // namespace foreload
