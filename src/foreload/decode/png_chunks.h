// SPDX-License-Identifier: Apache-2.0
//
// The chunks of a PNG file, walked as Pillow walks them: what is refused, what is passed over and
// which of two chunks counts is the same. So checksums are compared before the pixels and not in or
// behind them, chunks that nobody knows are passed over even if they are called critical, and a
// chunk behind the pixels may still change colours and the orientation. For png.cc only.
//
// For one thread; refers to the file's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "foreload/base/result.h"
#include "foreload/decode/pixels.h"

namespace foreload {

// How pixels are stored.
struct PngLayout {
  enum Color : uint8_t { grey = 0, rgb = 2, palette = 3, grey_alpha = 4, rgba = 6 };
  Color color = grey;
  uint32_t depth = 0;  // bits of a channel; 0: not known yet

  uint32_t channels() const;
  uint32_t bits() const { return channels() * depth; }
  // Distance of filters.
  uint32_t pixel_bytes() const { return (bits() + 7) / 8; }
  size_t row_bytes(uint32_t width) const { return (size_t{width} * bits() + 7) / 8; }
};

// What a tRNS chunk says; which part of it counts depends on the layout at that time.
struct PngTransparency {
  enum Kind : uint8_t { none, color, index, alphas };
  Kind kind = none;
  uint16_t red = 0, green = 0, blue = 0;  // `color`; grey is in all three
  size_t entry = 0;                       // `index`: the only entry that is not opaque
  std::span<const std::byte> values;      // `alphas`
};

class PngChunks {
 public:
  using Bytes = std::span<const std::byte>;

  // REQUIRES: the file begins with PNG's signature.
  explicit PngChunks(Bytes file);

  // Walks to the first chunk with pixels. Fails with `invalid` where Pillow's Image.open() does,
  // and where there is no such chunk.
  Result<void> open();
  // The pixel data from there on in the pieces that Pillow reads: the rest of a chunk, but at most
  // kPiece bytes. An empty piece: there is no more. Fails with `invalid`.
  static constexpr size_t kPiece = 65536;
  Result<Bytes> next_piece();
  // Whether the file ended in the last piece.
  bool cut_short() const { return cut_short_; }
  // Walks the rest of the file, from the chunk on in which the pixels ended. Fails with `invalid`
  // where a chunk is damaged in a way that Pillow does not forgive.
  Result<void> close();

  size_t file_bytes() const { return file_.size(); }
  // As of open().
  ImageSize size() const { return size_; }
  const PngLayout& layout() const { return layout_; }
  bool interlaced() const { return interlaced_; }
  // Where in the image the pixels go: the first frame of an animation may be smaller than it.
  const Region& frame() const { return frame_; }
  // As of close(); `palette` is what the PLTE chunk holds.
  const std::optional<Bytes>& palette() const { return palette_; }
  const PngTransparency& transparency() const { return transparency_; }
  // 1 to 8. Fails with `invalid` where metadata are not what they claim to be.
  Result<int> orientation() const;

 private:
  struct Chunk {
    std::string_view name;
    size_t length = 0;
  };
  enum class Found : uint8_t { known, unknown, pixels };

  // The head of the next chunk; nothing if there is none, or nothing with a name.
  std::optional<Chunk> read_head();
  Result<Bytes> read_body(size_t length);
  // Fails, or takes notice of a chunk whose head was read and leaves its bytes (all of it, of a
  // known one) in `body_`.
  Result<Found> read(const Chunk& chunk);
  Result<void> read_header_chunk();
  Result<void> read_transparency();
  Result<void> read_animation();
  Result<void> read_frame();
  Result<void> read_profile();
  Result<void> read_text();
  Result<void> read_compressed_text();
  Result<void> read_international_text();
  Result<void> keep_text(std::string_view key, std::string value, size_t characters);
  Result<std::optional<std::string>> inflated(std::string_view compressed) const;

  Bytes file_;
  size_t at_ = 0;
  Bytes body_;
  size_t left_in_chunk_ = 0;  // of pixel data
  bool cut_short_ = false;
  bool opened_ = false;
  ImageSize size_;
  PngLayout layout_;
  bool interlaced_ = false;
  Region frame_;
  ImageSize stream_size_;    // of the last header chunk, wherever it was
  PngLayout stream_layout_;  // likewise
  std::optional<Region> frame_control_;
  std::optional<uint32_t> frames_;
  std::optional<uint32_t> sequence_;
  bool animated_ = false;
  std::optional<Bytes> palette_;
  PngTransparency transparency_;
  size_t text_characters_ = 0;
  std::optional<Bytes> exif_;
  std::optional<std::string> hexadecimal_exif_;
  std::optional<std::string> xmp_text_;
  std::optional<std::string> xmp_;
};

}  // namespace foreload
