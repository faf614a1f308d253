// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/gif.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "foreload/decode/colors.h"

namespace foreload {
namespace {

using GifBytes = std::span<const std::byte>;

constexpr size_t kGifEntries = 256;

tl::unexpected<Error> gif_truncated(std::string_view where) {
  return fail(ErrorKind::invalid,
              fmt::format("truncated GIF image: the file ends {}; copy it again", where));
}

tl::unexpected<Error> gif_corrupt(std::string_view what) {
  return fail(ErrorKind::invalid, fmt::format("corrupt GIF image: {}; copy it again", what));
}

uint32_t gif_octet(GifBytes bytes, size_t i) {
  return std::to_integer<uint32_t>(bytes[i]);
}

uint32_t gif_word(GifBytes bytes, size_t i) {
  return gif_octet(bytes, i) | gif_octet(bytes, i + 1) << 8;
}

// A ramp of greys is what indices without a palette mean.
bool is_grey_ramp(GifBytes palette) {
  for (size_t i = 0; i < palette.size(); ++i)
    if (gif_octet(palette, i) != i / 3) return false;
  return true;
}

struct GifFrame {
  ImageSize size;  // of the image
  Region place;    // in it
  bool interlaced = false;
  // Of the colours; a ramp of greys counts as none. The frame's own goes first.
  std::optional<GifBytes> global_palette;
  std::optional<GifBytes> palette;
  std::optional<uint8_t> transparent;
  uint32_t bits = 0;  // of the first codes, less one
  size_t data = 0;    // where the blocks of codes begin
};

// Walks to the first frame.
class GifHeaderReader {
 public:
  explicit GifHeaderReader(GifBytes file) : file_(file) {}

  Result<GifFrame> read() {
    const GifBytes screen = take(13);
    if (screen.size() < 13) return gif_truncated("inside its header");
    frame_.size = {gif_word(screen, 6), gif_word(screen, 8)};
    frame_.global_palette = take_palette(gif_octet(screen, 10));
    while (const std::optional<uint32_t> what = take_octet()) {
      if (*what == ';') return gif_corrupt("it has no frame");
      if (*what == '!') FORELOAD_CHECK(read_extension());
      if (*what == ',') return read_frame();
    }
    return gif_truncated("inside its header");
  }

 private:
  GifBytes take(size_t bytes) {
    const GifBytes taken = file_.subspan(at_, std::min(bytes, file_.size() - at_));
    at_ += taken.size();
    return taken;
  }
  std::optional<uint32_t> take_octet() {
    if (at_ == file_.size()) return std::nullopt;
    return gif_octet(file_, at_++);
  }
  // Empty: there are no more.
  GifBytes take_block() { return take(take_octet().value_or(0)); }
  // Nothing: the flags say that there is none, or it is a ramp of greys.
  std::optional<GifBytes> take_palette(uint32_t flags) {
    if ((flags & 0x80) == 0) return std::nullopt;
    const GifBytes palette = take(size_t{6} << (flags & 7));
    return is_grey_ramp(palette) ? std::nullopt : std::optional(palette);
  }

  // Blocks are skipped as Pillow does it, which looks for an end after those that it understands
  // even if there was one.
  Result<void> read_extension() {
    constexpr uint32_t kControl = 0xF9;
    constexpr uint32_t kComment = 0xFE;
    constexpr uint32_t kApplication = 0xFF;
    const std::optional<uint32_t> kind = take_octet();
    if (!kind) return gif_truncated("inside its header");
    const GifBytes block = take_block();
    if (*kind == kComment && block.empty()) return {};
    if (*kind == kControl && !block.empty()) {
      const bool transparent = (gif_octet(block, 0) & 1) != 0;
      if (block.size() < (transparent ? 4u : 3u)) return gif_corrupt("a block is too short");
      if (transparent) frame_.transparent = static_cast<uint8_t>(gif_octet(block, 3));
    }
    const std::string_view text(reinterpret_cast<const char*>(block.data()), block.size());
    if (*kind == kApplication && text.starts_with("NETSCAPE2.0")) take_block();
    while (!take_block().empty()) continue;
    return {};
  }

  Result<GifFrame> read_frame() {
    const GifBytes head = take(9);
    if (head.size() < 9) return gif_truncated("inside its header");
    frame_.place = {gif_word(head, 0), gif_word(head, 2), gif_word(head, 4), gif_word(head, 6)};
    const uint32_t flags = gif_octet(head, 8);
    frame_.interlaced = (flags & 0x40) != 0;
    const bool own_palette = (flags & 0x80) != 0;
    frame_.palette = take_palette(flags);
    const std::optional<uint32_t> bits = take_octet();
    if (!bits) return gif_truncated("inside its header");
    frame_.bits = *bits;
    frame_.data = at_;
    if (!own_palette) frame_.palette = frame_.global_palette;

    const Region& place = frame_.place;
    frame_.size.width = std::max(frame_.size.width, place.x + place.width);
    frame_.size.height = std::max(frame_.size.height, place.y + place.height);
    if (frame_.size.width == 0 || frame_.size.height == 0) return gif_corrupt("it has no pixels");
    return frame_;
  }

  const GifBytes file_;
  size_t at_ = 0;
  GifFrame frame_;
};

// The codes, of a growing number of bits, in blocks. Pillow reads 64 KiB at a time, begins no block
// that it has not read to its end, and takes an empty one for the beginning of the next.
class GifCodes {
 public:
  GifCodes(GifBytes file, size_t begin) : file_(file), at_(begin), read_(begin) {}

  // Nothing where the file ends.
  std::optional<uint32_t> next(unsigned size) {
    while (count_ < size) {
      if (block_ > 0) {
        bits_ |= gif_octet(file_, at_++) << count_;
        count_ += 8;
        --block_;
      } else if (at_ < read_ && gif_octet(file_, at_) < read_ - at_) {
        block_ = gif_octet(file_, at_++);
      } else if (!read_more()) {
        return std::nullopt;
      }
    }
    const uint32_t code = bits_ & ((1u << size) - 1);
    bits_ >>= size;
    count_ -= size;
    return code;
  }
  bool read_more() {
    constexpr size_t kAtOnce = 65'536;
    if (read_ == file_.size()) return false;
    read_ = std::min(file_.size(), read_ + kAtOnce);
    return true;
  }

 private:
  const GifBytes file_;
  size_t at_;
  size_t read_;
  uint32_t block_ = 0;  // bytes that are left of it
  uint32_t bits_ = 0;
  unsigned count_ = 0;
};

// Where the next pixel goes: rows from top to bottom, or every eighth first and those between
// later.
class GifPlaces {
 public:
  GifPlaces(const GifFrame& frame, uint8_t* pixels)
      : width_(frame.place.width),
        height_(frame.place.height),
        pass_(frame.interlaced ? 0 : kPasses.size() - 1),
        step_(frame.interlaced ? kPasses[0].step : 1),
        pixels_(pixels) {}

  // False after the last one.
  bool put(uint8_t pixel) {
    pixels_[size_t{y_} * width_ + x_] = pixel;
    if (++x_ < width_) return true;
    x_ = 0;
    y_ += step_;
    while (y_ >= height_) {
      if (++pass_ >= kPasses.size()) return false;
      y_ = kPasses[pass_].first;
      step_ = kPasses[pass_].step;
    }
    return true;
  }

 private:
  struct Pass {
    uint32_t first, step;
  };
  static constexpr std::array<Pass, 4> kPasses{{{0, 8}, {4, 8}, {2, 4}, {1, 2}}};

  const uint32_t width_;
  const uint32_t height_;
  size_t pass_;
  uint32_t step_;
  uint32_t x_ = 0;
  uint32_t y_ = 0;
  uint8_t* const pixels_;
};

// A code stands for a string: that of an earlier code, and a byte more. Strings are written from
// their ends.
class GifStrings {
 public:
  static constexpr unsigned kMostBits = 12;

  explicit GifStrings(unsigned bits) : bits_(bits), clear_(1u << bits) { reset(); }

  bool clears(uint32_t code) const { return code == clear_; }
  bool ends(uint32_t code) const { return code == clear_ + 1; }
  unsigned code_bits() const { return code_bits_; }
  void reset() {
    next_ = clear_ + 2;
    code_bits_ = bits_ + 1;
    fresh_ = true;
  }
  // The string of a code, none if it cannot be. Learns another one.
  std::span<const uint8_t> read(uint32_t code) {
    if (fresh_ ? code >= clear_ : code > next_) return {};
    size_t begin = text_.size();
    uint32_t left = code;
    if (!fresh_ && code == next_) {  // is being learnt: the last string, and its first byte again
      text_[--begin] = first_;
      left = last_code_;
    }
    for (; left >= clear_; left = before_[left]) {
      if (left >= kMost || begin == 1) return {};
      text_[--begin] = end_[left];
    }
    text_[--begin] = first_ = static_cast<uint8_t>(left);
    if (!fresh_) learn();
    fresh_ = false;
    last_code_ = code;
    return std::span(text_).subspan(begin);
  }

 private:
  static constexpr size_t kMost = size_t{1} << kMostBits;

  void learn() {
    if (next_ >= kMost) return;
    end_[next_] = first_;
    before_[next_] = static_cast<uint16_t>(last_code_);
    if (next_ == (1u << code_bits_) - 1 && code_bits_ < kMostBits) ++code_bits_;
    ++next_;
  }

  const unsigned bits_;
  const uint32_t clear_;
  uint32_t next_ = 0;  // code that is learnt next
  unsigned code_bits_ = 0;
  bool fresh_ = true;  // nothing was read since it was cleared
  uint32_t last_code_ = 0;
  uint8_t first_ = 0;  // of the last string
  std::array<uint8_t, kMost> end_{};
  std::array<uint16_t, kMost> before_{};
  std::array<uint8_t, kMost + 1> text_{};
};

Result<void> unpack_gif(GifBytes file, const GifFrame& frame, uint8_t* pixels) {
  if (frame.bits > GifStrings::kMostBits) return gif_corrupt("codes that are too long");
  GifCodes codes(file, frame.data);
  GifStrings strings(frame.bits);
  GifPlaces places(frame, pixels);
  while (true) {
    const std::optional<uint32_t> code = codes.next(strings.code_bits());
    if (!code) return gif_truncated("before the last pixel");
    if (strings.clears(*code)) {
      strings.reset();
    } else if (strings.ends(*code)) {
      if (!codes.read_more()) return gif_truncated("before the last pixel");
    } else {
      const std::span<const uint8_t> string = strings.read(*code);
      if (string.empty()) return gif_corrupt("its codes make no sense");
      for (const uint8_t pixel : string)
        if (!places.put(pixel)) return {};
    }
  }
}

using GifColors = std::array<std::array<uint8_t, 4>, kGifEntries>;

GifColors colors_of(const GifFrame& frame, const DecodeOptions& options) {
  const ColorMode mode = options.mode;
  GifColors colors;
  // Pillow's way with a frame whose own palette is a ramp of greys, beside one of the image that is
  // not: in greys the ramp counts, in colours, or where it was asked to turn the image, the
  // image's.
  std::optional<GifBytes> palette = frame.palette;
  if (!palette && (mode != ColorMode::grey || options.exif_orientation))
    palette = frame.global_palette;
  for (size_t i = 0; i < kGifEntries; ++i) {
    std::array<uint8_t, 4>& color = colors[i];
    const auto grey = static_cast<uint8_t>(i);
    color = {grey, grey, grey, 255};
    if (palette) {
      color = {0, 0, 0, 255};
      if (3 * i < palette->size()) std::memcpy(color.data(), palette->data() + 3 * i, 3);
    }
    if (mode == ColorMode::grey) color[0] = grey_of(color[0], color[1], color[2]);
    if (frame.transparent == i) color[3] = 0;
  }
  return colors;
}

}  // namespace

bool is_gif(GifBytes file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  return text.starts_with("GIF87a") || text.starts_with("GIF89a");
}

Result<ImageHeader> read_gif_header(GifBytes file, bool /*orientation*/) {
  FORELOAD_TRY(const GifFrame frame, GifHeaderReader(file).read());
  return ImageHeader{.size = frame.size};
}

Result<void> decode_gif(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                        Scratch& scratch) {
  FORELOAD_TRY(const GifFrame frame, GifHeaderReader(from.file).read());
  const Region& place = frame.place;
  if (place.width == 0 || place.height == 0) return gif_corrupt("its frame has no pixels");
  const size_t needed = size_t{place.width} * place.height;
  if (scratch.bytes.size() < needed) scratch.bytes.resize(needed);
  FORELOAD_CHECK(unpack_gif(from.file, frame, scratch.bytes.data()));

  if (options.mode == ColorMode::rgba && !options.exif_orientation && !frame.palette &&
      frame.global_palette && frame.transparent) {
    return fail(ErrorKind::invalid,
                "GIF image of two palettes whose transparency Pillow cannot convert; save it anew");
  }
  const GifColors colors = colors_of(frame, options);
  const uint32_t channels = channels_of(options.mode);
  const Region& region = from.region;
  out.reset({region.width, region.height}, channels);
  for (uint32_t y = 0; y < region.height; ++y) {
    const uint32_t row = region.y + y - place.y;  // of the frame; huge above it
    uint8_t* to = out.row(y);
    for (uint32_t x = 0; x < region.width; ++x, to += channels) {
      const uint32_t column = region.x + x - place.x;
      const bool covered = row < place.height && column < place.width;
      const uint8_t pixel = covered ? scratch.bytes[size_t{row} * place.width + column]
                                    : frame.transparent.value_or(0);
      std::memcpy(to, colors[pixel].data(), channels);
    }
  }
  return {};
}

}  // namespace foreload
