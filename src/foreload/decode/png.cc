// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/png.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <bit>
#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include <fmt/format.h>

#include "foreload/decode/colors.h"

namespace foreload {
namespace {

// libpng leaves by longjmp, which runs no destructors: everything between setjmp and libpng is
// trivially destructible, and memory of ours is held outside.
struct Reading {
  png_struct* png = nullptr;
  png_info* info = nullptr;
  std::span<const std::byte> rest;
  std::jmp_buf failed;
  bool truncated = false;
  std::array<char, 200> message;
};
static_assert(std::is_trivially_destructible_v<Reading>);

struct Request {
  ImageSize size;
  ColorMode mode;
  bool wide;
  Region region;

  uint32_t bytes_per_pixel() const { return channels_of(mode) * (wide ? 2 : 1); }
};

[[noreturn]] void leave_with(Reading& reading, const char* message) {
  std::snprintf(reading.message.data(), reading.message.size(), "%s", message);
  std::longjmp(reading.failed, 1);
}

void leave(png_struct* png, const char* message) {
  leave_with(*static_cast<Reading*>(png_get_error_ptr(png)), message);
}

void ignore_warning(png_struct* /*png*/, const char* /*message*/) {}

void give_bytes(png_struct* png, png_byte* to, size_t count) {
  auto& reading = *static_cast<Reading*>(png_get_io_ptr(png));
  if (count > reading.rest.size()) {
    reading.truncated = true;
    leave_with(reading, "");
  }
  std::memcpy(to, reading.rest.data(), count);
  reading.rest = reading.rest.subspan(count);
}

// One byte, or for `rgb` three and for `wide_grey` two bytes (high one first) per pixel; `ready`:
// as they are asked for; `wide_rgb`: three words, of which grey ones are to be made.
enum class RawKind : uint8_t { rgb, grey, wide_grey, indexed, ready, wide_rgb };

struct RawForm {
  RawKind kind = RawKind::rgb;
  uint8_t grey_factor = 1;                            // from the file's range to 0..255
  std::array<std::array<uint8_t, 3>, 256> palette{};  // black where the file defines none
};

// Lets libpng make words, or bytes with alpha.
void choose_wide_form(Reading& reading, const Request& request, RawForm& form) {
  png_struct* const png = reading.png;
  const bool colored = (png_get_color_type(png, reading.info) & PNG_COLOR_MASK_COLOR) != 0;
  png_set_expand(png);
  if (request.wide) {
    png_set_expand_16(png);
    if constexpr (std::endian::native == std::endian::little) png_set_swap(png);
  } else {
    png_set_strip_16(png);
  }
  if (request.mode == ColorMode::rgba)
    png_set_add_alpha(png, request.wide ? 0xFFFF : 0xFF, PNG_FILLER_AFTER);
  else
    png_set_strip_alpha(png);
  if (request.mode != ColorMode::grey && !colored) png_set_gray_to_rgb(png);
  form.kind = request.mode == ColorMode::grey && colored ? RawKind::wide_rgb : RawKind::ready;
}

// Asks libpng for bytes without alpha and says what they will mean.
void choose_form(Reading& reading, const Request& request, RawForm& form) {
  png_struct* const png = reading.png;
  const int depth = png_get_bit_depth(png, reading.info);
  const int color = png_get_color_type(png, reading.info);
  const bool clipped = color == PNG_COLOR_TYPE_GRAY && depth == 16 && !request.wide;
  if (!clipped && (request.wide || request.mode == ColorMode::rgba))
    return choose_wide_form(reading, request, form);
  png_set_packing(png);
  png_set_strip_alpha(png);
  if (color == PNG_COLOR_TYPE_PALETTE) {
    form.kind = RawKind::indexed;
    png_color* colors = nullptr;
    int count = 0;
    png_get_PLTE(png, reading.info, &colors, &count);
    for (int i = 0; i < std::min(count, 256); ++i) {
      form.palette[static_cast<size_t>(i)] = {colors[i].red, colors[i].green, colors[i].blue};
    }
  } else if (color == PNG_COLOR_TYPE_GRAY && depth == 16) {
    form.kind = RawKind::wide_grey;
  } else if ((color & PNG_COLOR_MASK_COLOR) == 0) {
    form.kind = RawKind::grey;
    if (depth < 8) form.grey_factor = static_cast<uint8_t>(255 / ((1 << depth) - 1));
    png_set_strip_16(png);
  } else {
    form.kind = RawKind::rgb;
    png_set_strip_16(png);
  }
}

std::array<uint8_t, 3> color_at(const uint8_t* row, uint32_t x, const RawForm& form) {
  const auto grey = [](uint8_t value) { return std::array{value, value, value}; };
  switch (form.kind) {
    case RawKind::rgb:
      return {row[3 * size_t{x}], row[3 * size_t{x} + 1], row[3 * size_t{x} + 2]};
    case RawKind::grey:
      return grey(static_cast<uint8_t>(row[x] * form.grey_factor));
    case RawKind::wide_grey:
      return grey(row[2 * size_t{x}] != 0 ? 255 : row[2 * size_t{x} + 1]);
    case RawKind::indexed:
      return form.palette[row[x]];
    case RawKind::ready:
    case RawKind::wide_rgb:
      break;  // not one color a byte
  }
  return {};
}

// Pillow's weights, for words.
void words_to_grey(const uint8_t* raw, uint32_t pixels, uint8_t* out) {
  for (uint32_t x = 0; x < pixels; ++x, raw += 6, out += 2) {
    std::array<uint16_t, 3> color;
    std::memcpy(color.data(), raw, sizeof color);
    const auto grey = static_cast<uint16_t>(
        (color[0] * 19595u + color[1] * 38470u + color[2] * 7471u + 0x8000u) >> 16);
    std::memcpy(out, &grey, sizeof grey);
  }
}

void convert_row(const uint8_t* raw, const RawForm& form, const Request& request, uint8_t* out) {
  const Region& region = request.region;
  if (form.kind == RawKind::ready ||
      (form.kind == RawKind::rgb && request.mode == ColorMode::rgb)) {
    const size_t pixel = request.bytes_per_pixel();
    std::memcpy(out, raw + pixel * region.x, pixel * region.width);
    return;
  }
  if (form.kind == RawKind::wide_rgb)
    return words_to_grey(raw + size_t{6} * region.x, region.width, out);
  for (uint32_t x = region.x; x < region.x + region.width; ++x) {
    const auto [red, green, blue] = color_at(raw, x, form);
    if (request.mode == ColorMode::grey) {
      *out++ = grey_of(red, green, blue);
    } else {
      *out++ = red;
      *out++ = green;
      *out++ = blue;
      if (request.mode == ColorMode::rgba) *out++ = 255;
    }
  }
}

void open(Reading& reading, const Request& request) {
  png_struct* const png = reading.png;
  reading.info = png_create_info_struct(png);
  if (reading.info == nullptr) leave_with(reading, "no memory");
  png_set_read_fn(png, &reading, give_bytes);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
#ifdef PNG_SET_UNKNOWN_CHUNKS_SUPPORTED
  // Profiles, texts and the like are not even looked at.
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
#endif
  png_read_info(png, reading.info);
  if (png_get_image_width(png, reading.info) != request.size.width ||
      png_get_image_height(png, reading.info) != request.size.height) {
    leave_with(reading, "two headers that contradict each other");
  }
}

void read_region(Reading& reading, const Request& request, PixelBuffer& out, Scratch& scratch) {
  open(reading, request);
  RawForm form;
  choose_form(reading, request, form);
  const int passes = png_set_interlace_handling(reading.png);
  png_read_update_info(reading.png, reading.info);
  const size_t row_bytes = png_get_rowbytes(reading.png, reading.info);
  const uint32_t height = request.size.height;
  // Each pass of an interlaced image adds to what the earlier ones left in a row.
  const size_t kept_rows = passes == 1 ? 1 : height;
  if (scratch.bytes.size() < row_bytes * kept_rows) scratch.bytes.resize(row_bytes * kept_rows);
  const auto raw_row = [&](uint32_t y) {
    return scratch.bytes.data() + (passes == 1 ? 0 : y * row_bytes);
  };
  const Region& region = request.region;
  out.reset({region.width, region.height}, request.bytes_per_pixel());
  for (int pass = 0; pass < passes; ++pass) {
    for (uint32_t y = 0; y < height; ++y) {
      png_read_row(reading.png, raw_row(y), nullptr);
      const bool wanted = pass == passes - 1 && y >= region.y && y - region.y < region.height;
      if (wanted) convert_row(raw_row(y), form, request, out.row(y - region.y));
    }
  }
}

// The frame that longjmp comes back to; what it needs afterwards lives in `reading`.
bool attempt(Reading& reading, const Request& request, PixelBuffer& out, Scratch& scratch) {
  if (setjmp(reading.failed) != 0) return false;
  reading.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, leave, ignore_warning);
  if (reading.png == nullptr) leave_with(reading, "libpng is not the version built against");
  read_region(reading, request, out, scratch);
  return true;
}

}  // namespace

Result<void> decode_png(std::span<const std::byte> file, ImageSize size,
                        const DecodeOptions& options, const Region& region, PixelBuffer& out,
                        Scratch& scratch) {
  Reading reading;
  reading.rest = file;
  const bool done = attempt(reading, {size, options.mode, options.wide, region}, out, scratch);
  png_destroy_read_struct(&reading.png, &reading.info, nullptr);
  if (done) return {};
  if (reading.truncated) {
    return fail(ErrorKind::invalid,
                "truncated PNG image: the file ends before the last pixel; copy it again");
  }
  return fail(ErrorKind::invalid, fmt::format("corrupt PNG image: {}", reading.message.data()));
}

}  // namespace foreload
