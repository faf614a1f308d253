// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "foreload/decode/exif.h"
#include "foreload/decode/jpeg.h"

namespace foreload {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kExif("Exif\0\0", 6);
constexpr std::string_view kXmp("http://ns.adobe.com/xap/1.0/\0", 29);

uint32_t byte_at(Bytes bytes, size_t at) {
  return std::to_integer<uint32_t>(bytes[at]);
}

uint32_t word_at(Bytes bytes, size_t at) {
  return byte_at(bytes, at) << 8 | byte_at(bytes, at + 1);
}

bool starts_with(Bytes bytes, std::string_view prefix) {
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())
      .starts_with(prefix);
}

struct Segment {
  uint32_t marker = 0;
  Bytes body;
};

// Goes from marker to marker. Bytes between segments are passed over, as libjpeg does.
class Segments {
 public:
  explicit Segments(Bytes file) : rest_(file) {}

  // Nothing at the end of the file, also if it lies inside a segment.
  std::optional<Segment> next() {
    while (rest_.size() >= 2) {
      const uint32_t first = byte_at(rest_, 0);
      const uint32_t marker = byte_at(rest_, 1);
      if (first != 0xFF || marker == 0x00 || marker == 0xFF) {
        rest_ = rest_.subspan(1);
        continue;
      }
      rest_ = rest_.subspan(2);
      const bool stands_alone = marker == 0x01 || (0xD0 <= marker && marker <= 0xD9);
      if (stands_alone) return Segment{marker, {}};
      if (rest_.size() < 2) break;
      const size_t length = word_at(rest_, 0);
      if (length < 2 || length > rest_.size()) break;
      const Segment segment{marker, rest_.subspan(2, length - 2)};
      rest_ = rest_.subspan(length);
      return segment;
    }
    return std::nullopt;
  }

 private:
  Bytes rest_;
};

bool is_frame(uint32_t marker) {
  return 0xC0 <= marker && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

Result<ImageSize> frame_size(Bytes frame) {
  if (frame.size() < 6) return fail(ErrorKind::invalid, "JPEG image with a broken frame header");
  if (const uint32_t bits = byte_at(frame, 0); bits != 8) {
    return fail(ErrorKind::invalid,
                fmt::format("JPEG image with {} bits per sample; convert it to 8 bits", bits));
  }
  if (const uint32_t channels = byte_at(frame, 5);
      channels != 1 && channels != 3 && channels != 4) {
    return fail(ErrorKind::invalid,
                fmt::format("JPEG image with {} colour channels; convert it to RGB", channels));
  }
  const ImageSize size{word_at(frame, 3), word_at(frame, 1)};
  if (size.width == 0 || size.height == 0) {
    return fail(ErrorKind::invalid, "JPEG image that declares no pixels");
  }
  return size;
}

}  // namespace

bool is_jpeg(Bytes file) {
  return file.size() >= 3 && byte_at(file, 0) == 0xFF && byte_at(file, 1) == 0xD8 &&
         byte_at(file, 2) == 0xFF;
}

Result<ImageHeader> read_jpeg_header(Bytes file, bool orientation) {
  constexpr uint32_t kLossless = 0xC3, kEndOfImage = 0xD9, kStartOfScan = 0xDA, kApp1 = 0xE1;
  ImageHeader header{.format = ImageFormat::jpeg};
  bool framed = false;
  int by_exif = 0, by_xmp = 0;
  Segments segments(file.subspan(2));
  while (const auto segment = segments.next()) {
    const auto [marker, body] = *segment;
    if (is_frame(marker) && !framed) {
      if (marker == kLossless) {
        return fail(ErrorKind::invalid, "lossless JPEG image; convert it to PNG");
      }
      FORELOAD_TRY(header.size, frame_size(body));
      framed = true;
      if (!orientation) return header;
    } else if (marker == kStartOfScan || marker == kEndOfImage) {
      if (!framed) return fail(ErrorKind::invalid, "JPEG image without a frame header");
      if (by_exif != 0 || by_xmp != 0) header.orientation = by_exif != 0 ? by_exif : by_xmp;
      return header;
    } else if (marker == kApp1 && orientation) {
      if (starts_with(body, kExif) && by_exif == 0) {
        by_exif = tiff_orientation(body.subspan(kExif.size()));
      } else if (starts_with(body, kXmp)) {
        by_xmp = xmp_orientation(body.subspan(kXmp.size()));
      }
    }
  }
  return fail(ErrorKind::invalid, "truncated JPEG image: it ends inside its header");
}

}  // namespace foreload
