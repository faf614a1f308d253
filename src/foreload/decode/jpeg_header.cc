// SPDX-License-Identifier: Apache-2.0
//
// What Pillow's JpegImageFile reads before libjpeg sees the file, and what it raises for. libjpeg
// reads the same segments later and refuses much more.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "foreload/decode/exif.h"
#include "foreload/decode/jpeg.h"

namespace foreload {
namespace {

using Bytes = std::span<const std::byte>;

enum JpegMarker : uint32_t {
  kFirstFrame = 0xC0,
  kLosslessFrame = 0xC3,
  kHuffmanTables = 0xC4,
  kExtension = 0xC8,
  kConditioning = 0xCC,
  kLastFrame = 0xCF,
  kFirstRestart = 0xD0,
  kEndOfImage = 0xD9,
  kStartOfScan = 0xDA,
  kQuantization = 0xDB,
  kHierarchy = 0xDE,
  kFirstApp = 0xE0,
  kExifApp = 0xE1,
  kProfileApp = 0xE2,
  kPhotoshopApp = 0xED,
  kAdobeApp = 0xEE,
  kLastApp = 0xEF,
  kFirstReserved = 0xF0,
  kLastReserved = 0xFD,
};

uint32_t octet_at(Bytes bytes, size_t at) {
  return std::to_integer<uint32_t>(bytes[at]);
}

uint32_t octets_at(Bytes bytes, size_t at) {
  return octet_at(bytes, at) << 8 | octet_at(bytes, at + 1);
}

std::string_view jpeg_text(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_frame(uint32_t marker) {
  return (kFirstFrame <= marker && marker <= kLastFrame && marker != kHuffmanTables &&
          marker != kExtension && marker != kConditioning) ||
         marker == kHierarchy;
}

// Markers that no length follows.
bool stands_alone(uint32_t marker) {
  return marker == kExtension || (kFirstRestart <= marker && marker <= kEndOfImage) ||
         (kFirstReserved <= marker && marker <= kLastReserved);
}

tl::unexpected<Error> broken(std::string_view what) {
  return fail(ErrorKind::invalid, fmt::format("corrupt JPEG image: {}", what));
}

Result<ImageSize> frame_size(Bytes frame) {
  if (frame.size() < 6) return broken("a frame header that is too short");
  if (const uint32_t bits = octet_at(frame, 0); bits != 8) {
    return fail(ErrorKind::invalid,
                fmt::format("JPEG image with {} bits per sample; convert it to 8 bits", bits));
  }
  if (const uint32_t channels = octet_at(frame, 5);
      channels != 1 && channels != 3 && channels != 4) {
    return fail(ErrorKind::invalid,
                fmt::format("JPEG image with {} colour channels; convert it to RGB", channels));
  }
  const ImageSize size{octets_at(frame, 3), octets_at(frame, 1)};
  if (size.width == 0 || size.height == 0) {
    return fail(ErrorKind::invalid, "JPEG image that declares no pixels");
  }
  return size;
}

// Whether Pillow, which goes through the resources of Photoshop, would stumble: over one that ends
// before the length of its name.
bool breaks_off_in_a_name(Bytes resources) {
  constexpr std::string_view kResource = "8BIM";
  constexpr uint32_t kResolution = 0x03ED;
  size_t at = 14;
  while (jpeg_text(resources.subspan(std::min(at, resources.size()))).starts_with(kResource)) {
    at += 4;
    if (resources.size() - at < 2) return false;
    const uint32_t code = octets_at(resources, at);
    at += 2;
    if (at >= resources.size()) return true;
    at += 1 + octet_at(resources, at);
    at += at % 2;
    if (at > resources.size() || resources.size() - at < 4) return false;
    const size_t length = size_t{octets_at(resources, at)} << 16 | octets_at(resources, at + 2);
    at += 4;
    const size_t there = std::min(length, resources.size() - at);
    if (code == kResolution && there < 14) return false;
    at += length;
    at += at % 2;
  }
  return false;
}

class JpegHeaderReader {
 public:
  JpegHeaderReader(Bytes file, bool orientation) : rest_(file), orientation_(orientation) {}

  Result<ImageHeader> read() {
    rest_ = rest_.subspan(2);
    for (;;) {
      FORELOAD_TRY(const uint32_t marker, next_marker());
      if (stands_alone(marker)) continue;
      FORELOAD_TRY(const Bytes body, next_body());
      FORELOAD_CHECK(take(marker, body));
      if (marker == kStartOfScan) break;
    }
    if (header_.size.width == 0) return broken("it has no frame header");
    if (orientation_) {
      FORELOAD_TRY(header_.orientation, orientation());
    }
    return header_;
  }

 private:
  // Bytes between segments are passed over.
  Result<uint32_t> next_marker() {
    while (rest_.size() >= 2) {
      const uint32_t marker = octet_at(rest_, 0) == 0xFF ? octet_at(rest_, 1) : 0xFF;
      rest_ = rest_.subspan(marker == 0xFF ? 1 : 2);
      if (marker == 0x00 || marker == 0xFF) continue;
      if (marker < kFirstFrame) return broken("its header has a marker that means nothing");
      return marker;
    }
    return truncated();
  }

  Result<Bytes> next_body() {
    if (rest_.size() < 2) return truncated();
    const size_t length = std::max(octets_at(rest_, 0), 2u);
    if (length > rest_.size()) return truncated();
    const Bytes body = rest_.subspan(2, length - 2);
    rest_ = rest_.subspan(length);
    return body;
  }

  static tl::unexpected<Error> truncated() {
    return fail(ErrorKind::invalid,
                "truncated JPEG image: the file ends inside its header; copy it again");
  }

  Result<void> take(uint32_t marker, Bytes body) {
    if (is_frame(marker)) return take_frame(marker, body);
    if (marker == kQuantization) return take_quantization(body);
    if (kFirstApp <= marker && marker <= kLastApp) return take_app(marker, body);
    return {};
  }

  Result<void> take_frame(uint32_t marker, Bytes body) {
    FORELOAD_TRY(header_.size, frame_size(body));
    header_.shrinks = marker != kLosslessFrame;
    if (body.size() % 3 != 0) return broken("a frame header that ends in a channel");
    if (least_profile_ && least_profile_->size() < 14) return broken("a colour profile cut short");
    least_profile_.reset();
    return {};
  }

  static Result<void> take_quantization(Bytes body) {
    while (!body.empty()) {
      const size_t length = octet_at(body, 0) < 16 ? 1 + 64 : 1 + 128;
      if (body.size() < length) return broken("a quantization table cut short");
      body = body.subspan(length);
    }
    return {};
  }

  Result<void> take_app(uint32_t marker, Bytes body) {
    constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29),
        kProfile("ICC_PROFILE\0", 12), kFlashPix("FPXR\0", 5), kPhotoshop("Photoshop 3.0\0", 14);
    const std::string_view text = jpeg_text(body);
    if (marker == kFirstApp && text.starts_with("JFIF")) {
      if (body.size() < 7) return broken("a JFIF segment cut short");
      if (body.size() >= 12) {
        has_resolution_ |= octet_at(body, 7) == 1 || octet_at(body, 7) == 2;
      }
    } else if (marker == kExifApp && text.starts_with(kExif)) {
      add_exif(body);
    } else if (marker == kExifApp && text.starts_with(kXmp)) {
      xmp_ = body.subspan(kXmp.size());
    } else if (marker == kProfileApp && text.starts_with(kFlashPix)) {
      return {};
    } else if (marker == kProfileApp && text.starts_with(kProfile)) {
      if (!least_profile_ || text < jpeg_text(*least_profile_)) least_profile_ = body;
    } else if (marker == kPhotoshopApp && text.starts_with(kPhotoshop)) {
      if (breaks_off_in_a_name(body)) return broken("a resource of Photoshop cut short");
    } else if (marker == kAdobeApp && text.starts_with("Adobe")) {
      if (body.size() < 7) return broken("an Adobe segment cut short");
    }
    return {};
  }

  // What several segments hold is one block; each has the prefix.
  void add_exif(Bytes body) {
    if (!orientation_) return;
    if (!exif_) {
      exif_ = body;
      return;
    }
    if (joined_.empty()) joined_.assign(exif_->begin(), exif_->end());
    joined_.insert(joined_.end(), body.begin() + 6, body.end());
    exif_ = joined_;
  }

  Result<int> orientation() const {
    int found = 0;
    if (exif_) {
      const Result<int> by_exif = exif_orientation(*exif_);
      // Without a resolution Pillow looks for one in the EXIF metadata while it opens the file. It
      // forgives what it meets then, and looks no more.
      if (!by_exif && !has_resolution_) return 1;
      if (!by_exif) return by_exif;
      found = *by_exif;
    }
    if (found == 0) found = xmp_orientation(xmp_);
    return found == 0 ? 1 : found;
  }

  Bytes rest_;
  bool orientation_;
  ImageHeader header_;
  bool has_resolution_ = false;
  std::optional<Bytes> exif_;
  std::vector<std::byte> joined_;
  Bytes xmp_;
  std::optional<Bytes> least_profile_;  // since the last frame: the first of all, when sorted
};

}  // namespace

bool is_jpeg(Bytes file) {
  return file.size() >= 3 && octet_at(file, 0) == 0xFF && octet_at(file, 1) == 0xD8 &&
         octet_at(file, 2) == 0xFF;
}

bool only_end_marker_ahead(Bytes data) {
  while (!data.empty()) {
    const auto* const found =
        static_cast<const std::byte*>(std::memchr(data.data(), 0xFF, data.size()));
    if (found == nullptr) return false;
    data = data.subspan(static_cast<size_t>(found - data.data()) + 1);
    if (data.empty()) return false;
    const uint32_t marker = octet_at(data, 0);
    if (marker == kEndOfImage) return true;
    if (marker == 0xFF) continue;
    const bool restart = kFirstRestart <= marker && marker < kFirstRestart + 8;
    if (marker != 0x00 && !restart) return false;
    data = data.subspan(1);
  }
  return false;
}

Result<ImageHeader> read_jpeg_header(Bytes file, bool orientation) {
  return JpegHeaderReader(file, orientation).read();
}

}  // namespace foreload
