// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "foreload/decode/exif.h"
#include "foreload/decode/png.h"

namespace foreload {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

uint32_t number_at(Bytes bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  return value;
}

struct Chunk {
  std::string_view name;
  Bytes body;
};

// Takes the first chunk off `rest`; nothing if it is not all there.
std::optional<Chunk> take_chunk(Bytes& rest) {
  constexpr size_t kAround = 12;  // length, name, checksum
  if (rest.size() < kAround) return std::nullopt;
  const size_t length = number_at(rest, 0);
  if (length > rest.size() - kAround) return std::nullopt;
  const Chunk chunk{text_of(rest.subspan(4, 4)), rest.subspan(8, length)};
  rest = rest.subspan(kAround + length);
  return chunk;
}

}  // namespace

bool is_png(Bytes file) {
  return text_of(file).starts_with(kSignature);
}

Result<ImageHeader> read_png_header(Bytes file, bool orientation) {
  constexpr uint32_t kLargestSide = std::numeric_limits<int32_t>::max();
  Bytes rest = file.subspan(kSignature.size());
  const auto first = take_chunk(rest);
  if (!first || first->name != "IHDR" || first->body.size() != 13) {
    return fail(ErrorKind::invalid, "PNG image with a broken or truncated header");
  }
  ImageHeader header{.format = ImageFormat::png,
                     .size = {number_at(first->body, 0), number_at(first->body, 4)}};
  if (header.size.width == 0 || header.size.height == 0) {
    return fail(ErrorKind::invalid, "PNG image that declares no pixels");
  }
  if (header.size.width > kLargestSide || header.size.height > kLargestSide) {
    return fail(ErrorKind::invalid, "PNG image that declares an impossible size");
  }
  while (orientation) {
    const auto chunk = take_chunk(rest);
    if (!chunk || chunk->name == "IEND") break;
    if (chunk->name != "eXIf") continue;
    FORELOAD_TRY(const int found, exif_orientation(chunk->body));
    if (found != 0) header.orientation = found;
  }
  return header;
}

}  // namespace foreload
