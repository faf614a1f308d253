// SPDX-License-Identifier: Apache-2.0
#include "foreload/photos/jpeg_writer.h"

#include <jpeglib.h>

#include <array>
#include <cassert>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include <fmt/format.h>

namespace foreload {
namespace {

// libjpeg leaves by longjmp, which runs no destructors.
struct Compression {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  std::jmp_buf failed;
  std::array<char, JMSG_LENGTH_MAX> message;
  unsigned char* memory = nullptr;
  unsigned long bytes = 0;
};
static_assert(std::is_trivially_destructible_v<Compression>);

[[noreturn]] void leave(jpeg_common_struct* info) {
  auto& c = *static_cast<Compression*>(info->client_data);
  info->err->format_message(info, c.message.data());
  std::longjmp(c.failed, 1);
}

bool compress(Compression& c, const PixelView& pixels, const JpegStyle& style) {
  c.info.err = jpeg_std_error(&c.errors);
  c.errors.error_exit = leave;
  c.info.client_data = &c;
  if (setjmp(c.failed) != 0) return false;
  jpeg_create_compress(&c.info);
  jpeg_mem_dest(&c.info, &c.memory, &c.bytes);
  c.info.image_width = pixels.size.width;
  c.info.image_height = pixels.size.height;
  c.info.input_components = 3;
  c.info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&c.info);
  jpeg_set_quality(&c.info, style.quality, TRUE);
  if (style.progressive) jpeg_simple_progression(&c.info);
  jpeg_start_compress(&c.info, TRUE);
  for (uint32_t y = 0; y < pixels.size.height; ++y) {
    JSAMPROW row = const_cast<JSAMPROW>(pixels.row(y));  // libjpeg only reads it
    jpeg_write_scanlines(&c.info, &row, 1);
  }
  jpeg_finish_compress(&c.info);
  return true;
}

}  // namespace

Result<std::vector<std::byte>> write_jpeg(const PixelView& pixels, const JpegStyle& style) {
  assert(pixels.channels == 3);
  Compression c{};
  const bool written = compress(c, pixels, style);
  std::vector<std::byte> file;
  if (written) {
    const auto* const begin = reinterpret_cast<const std::byte*>(c.memory);
    file.assign(begin, begin + c.bytes);
  }
  jpeg_destroy_compress(&c.info);
  std::free(c.memory);
  if (!written)
    return fail(ErrorKind::invalid,
                fmt::format("cannot write {} x {} pixels as JPEG: {}", pixels.size.width,
                            pixels.size.height, c.message.data()));
  return file;
}

}  // namespace foreload
