// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/png.h"

#include <libdeflate.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "foreload/decode/png_chunks.h"
#include "foreload/decode/png_colors.h"
#include "foreload/decode/png_filters.h"

namespace foreload {
namespace {

using Bytes = PngChunks::Bytes;

constexpr size_t kAfterRows = 8;  // may be read behind the last row

// Every `right`-th pixel of every `down`-th row, beginning at (left, top), stored one after the
// other as rows of `row_bytes` behind a byte that names the filter.
struct PngPass {
  uint32_t left, top, right, down;
  uint32_t width = 0;
  uint32_t height = 0;
  size_t row_bytes = 0;

  size_t bytes() const { return (row_bytes + 1) * height; }
};

std::vector<PngPass> passes_of(const PngChunks& chunks) {
  static constexpr std::array<PngPass, 7> kInterlaced{{{0, 0, 8, 8},
                                                       {4, 0, 8, 8},
                                                       {0, 4, 4, 8},
                                                       {2, 0, 4, 4},
                                                       {0, 2, 2, 4},
                                                       {1, 0, 2, 2},
                                                       {0, 1, 1, 2}}};
  std::vector<PngPass> passes;
  if (chunks.interlaced()) {
    passes.assign(kInterlaced.begin(), kInterlaced.end());
  } else {
    passes.push_back({0, 0, 1, 1});
  }
  const auto shown = [](uint32_t side, uint32_t first, uint32_t step) {
    return side <= first ? 0 : (side - first + step - 1) / step;
  };
  for (PngPass& pass : passes) {
    pass.width = shown(chunks.frame().width, pass.left, pass.right);
    pass.height = shown(chunks.frame().height, pass.top, pass.down);
    pass.row_bytes = chunks.layout().row_bytes(pass.width);
  }
  std::erase_if(passes, [](const PngPass& pass) { return pass.width == 0 || pass.height == 0; });
  return passes;
}

tl::unexpected<Error> png_truncated() {
  return fail(ErrorKind::invalid,
              "truncated PNG image: the file ends before the last pixel; copy it again");
}

tl::unexpected<Error> png_corrupt(std::string_view what) {
  return fail(ErrorKind::invalid,
              fmt::format("corrupt PNG image: {}; copy it again, or save it anew", what));
}

// All pixel data in a row: in the file, where it lies so, or copied to the end of `memory`, behind
// `before` bytes. Nothing if the file ends in it.
std::optional<Bytes> gather_pieces(PngChunks& chunks, size_t before, std::vector<uint8_t>& memory) {
  Bytes all;
  bool copied = false;
  while (true) {
    const auto piece = chunks.next_piece();
    if (!piece || chunks.cut_short()) return std::nullopt;
    if (piece->empty()) break;
    if (!copied && (all.empty() || all.data() + all.size() == piece->data())) {
      all = {all.empty() ? piece->data() : all.data(), all.size() + piece->size()};
      continue;
    }
    const size_t needed = before + all.size() + piece->size();
    if (memory.size() < needed) memory.resize(std::max(needed, before + chunks.file_bytes()));
    uint8_t* const to = memory.data() + before;
    if (!copied) std::memcpy(to, all.data(), all.size());
    std::memcpy(to + all.size(), piece->data(), piece->size());
    copied = true;
    all = std::as_bytes(std::span(to, all.size() + piece->size()));
  }
  return all;
}

// Inflates a sound image in one go: exactly `size` bytes with the right checksum.
bool inflate_at_once(PngChunks& chunks, size_t size, std::vector<uint8_t>& rows) {
  constexpr size_t kMostGrowth = 1032;  // of deflated data
  if (size / kMostGrowth > chunks.file_bytes()) return false;
  if (rows.size() < size + kAfterRows) rows.resize(size + kAfterRows);
  const auto compressed = gather_pieces(chunks, size + kAfterRows, rows);
  if (!compressed) return false;
  const std::unique_ptr<libdeflate_decompressor, void (*)(libdeflate_decompressor*)> decompressor(
      libdeflate_alloc_decompressor(), libdeflate_free_decompressor);
  return decompressor != nullptr &&
         libdeflate_zlib_decompress(decompressor.get(), compressed->data(), compressed->size(),
                                    rows.data(), size, nullptr) == LIBDEFLATE_SUCCESS;
}

// Inflates what is not sound as Pillow does, row by row, and returns how many rows there are. It is
// fine with rows that are missing where the compressed data end properly after a row, with data
// after the last row, and with a checksum that is not there.
Result<size_t> inflate_by_rows(PngChunks& chunks, const std::vector<PngPass>& passes,
                               std::vector<uint8_t>& rows) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return fail(ErrorKind::invalid, "no memory for a PNG image");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  size_t count = 0;
  size_t begin = 0;  // of the row
  size_t filled = 0;
  auto pass = passes.begin();
  uint32_t y = 0;
  while (true) {
    FORELOAD_TRY(const Bytes piece, chunks.next_piece());
    if (piece.empty()) return png_truncated();
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(piece.data()));
    stream.avail_in = static_cast<uInt>(piece.size());
    while (stream.avail_in > 0) {
      const size_t row = pass->row_bytes + 1;
      if (rows.size() < begin + row + kAfterRows) rows.resize(begin + row + kAfterRows);
      stream.next_out = rows.data() + begin + filled;
      stream.avail_out = static_cast<uInt>(row - filled);
      const int status = inflate(&stream, Z_NO_FLUSH);
      if (status < 0) return png_corrupt(stream.msg != nullptr ? stream.msg : "no zlib data");
      filled = row - stream.avail_out;
      if (filled < row) break;
      ++count;
      begin += row;
      filled = 0;
      if (++y == pass->height) {
        y = 0;
        ++pass;
      }
      if (pass == passes.end() || status == Z_STREAM_END) return count;
    }
  }
}

PngFilter filter_of(const uint8_t* row) {
  return static_cast<PngFilter>(row[0]);
}

bool filters_known(const std::vector<PngPass>& passes, const uint8_t* rows, size_t count) {
  for (const PngPass& pass : passes) {
    for (uint32_t y = 0; y < pass.height && count > 0; ++y, --count, rows += pass.row_bytes + 1) {
      if (rows[0] >= kPngFilters) return false;
    }
  }
  return true;
}

// Samples of less than a byte, one byte each.
void expand_samples(const uint8_t* row, uint32_t depth, uint32_t first, uint32_t count,
                    uint8_t* out) {
  const uint32_t mask = (1u << depth) - 1;
  for (uint32_t x = first; x < first + count; ++x) {
    const uint32_t bit = x * depth;
    *out++ = static_cast<uint8_t>(row[bit / 8] >> (8 - depth - bit % 8) & mask);
  }
}

class PngRegion {
 public:
  PngRegion(const PngChunks& chunks, const PngColors& colors, const Region& region,
            std::vector<uint8_t>& rows)
      : layout_(chunks.layout()), colors_(colors), region_(region), rows_(rows.data()) {}

  // An image that is all there, row by row.
  void convert_rows(const PngPass& pass, PixelBuffer& out) {
    const size_t stride = pass.row_bytes + 1;
    // The rows above the region matter as far as the filters look up.
    uint32_t y = region_.y;
    while (y > 0 && !stands_alone(filter_of(rows_ + y * stride))) --y;
    const size_t bytes = layout_.row_bytes(region_.x + region_.width);
    const uint8_t* above = nullptr;
    if (layout_.depth < 8) samples_.resize(region_.width);
    for (; y < region_.y + region_.height; ++y) {
      uint8_t* const row = rows_ + y * stride;
      undo_filter(filter_of(row), layout_.pixel_bytes(), row + 1, above, bytes);
      above = row + 1;
      if (y < region_.y) continue;
      const uint8_t* samples = above + colors_.sample_bytes() * region_.x;
      if (layout_.depth < 8) {
        expand_samples(above, layout_.depth, region_.x, region_.width, samples_.data());
        samples = samples_.data();
      }
      colors_.convert(samples, region_.width, out.row(y - region_.y));
    }
  }

  // Whatever is there of an image; the rest is zero. Pixels go to their places one by one.
  void convert_pixels(const std::vector<PngPass>& passes, size_t count, uint32_t left, uint32_t top,
                      PixelBuffer& out) {
    const size_t sample_bytes = colors_.sample_bytes();
    std::vector<uint8_t> canvas(sample_bytes * region_.width * region_.height);
    uint8_t* row = rows_;
    for (const PngPass& pass : passes) {
      const uint8_t* above = nullptr;
      for (uint32_t y = 0; y < pass.height && count > 0; ++y, --count, row += pass.row_bytes + 1) {
        undo_filter(filter_of(row), layout_.pixel_bytes(), row + 1, above, pass.row_bytes);
        above = row + 1;
        const uint32_t to = top + pass.top + y * pass.down - region_.y;
        if (to >= region_.height) continue;
        const uint8_t* samples = above;
        if (layout_.depth < 8) {
          samples_.resize(pass.width);
          expand_samples(above, layout_.depth, 0, pass.width, samples_.data());
          samples = samples_.data();
        }
        for (uint32_t x = 0; x < pass.width; ++x) {
          const uint32_t column = left + pass.left + x * pass.right - region_.x;
          if (column >= region_.width) continue;
          std::memcpy(&canvas[(size_t{to} * region_.width + column) * sample_bytes],
                      samples + x * sample_bytes, sample_bytes);
        }
      }
    }
    for (uint32_t y = 0; y < region_.height; ++y) {
      colors_.convert(&canvas[size_t{y} * region_.width * sample_bytes], region_.width, out.row(y));
    }
  }

 private:
  const PngLayout layout_;
  const PngColors& colors_;
  const Region region_;
  uint8_t* const rows_;
  std::vector<uint8_t> samples_;
};

}  // namespace

bool is_png(Bytes file) {
  constexpr std::string_view kSignature("\x89PNG\r\n\x1a\n", 8);
  return std::string_view(reinterpret_cast<const char*>(file.data()), file.size())
      .starts_with(kSignature);
}

Result<ImageHeader> read_png_header(Bytes file, bool orientation) {
  PngChunks chunks(file);
  FORELOAD_CHECK(chunks.open());
  ImageHeader header{.size = chunks.size()};
  if (orientation) {
    (void)chunks.close();  // whether damage there matters, decoding knows
    FORELOAD_TRY(header.orientation, chunks.orientation());
  }
  return header;
}

Result<void> decode_png(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                        Scratch& scratch) {
  PngChunks chunks(from.file);
  FORELOAD_CHECK(chunks.open());
  const std::vector<PngPass> passes = passes_of(chunks);
  size_t rows = 0;
  size_t size = 0;
  for (const PngPass& pass : passes) {
    rows += pass.height;
    size += pass.bytes();
  }
  size_t found = rows;
  PngChunks again = chunks;
  if (!inflate_at_once(chunks, size, scratch.bytes)) {
    chunks = std::move(again);
    FORELOAD_TRY(found, inflate_by_rows(chunks, passes, scratch.bytes));
  }
  if (!filters_known(passes, scratch.bytes.data(), found)) return png_corrupt("unknown filter");
  FORELOAD_CHECK(chunks.close());

  FORELOAD_TRY(const PngColors colors, PngColors::make(chunks, options));
  out.reset({from.region.width, from.region.height}, colors.bytes_per_pixel());
  PngRegion pixels(chunks, colors, from.region, scratch.bytes);
  const Region& frame = chunks.frame();
  if (found == rows && passes.size() == 1 && passes.front().right == 1 &&
      frame == Region{0, 0, chunks.size().width, chunks.size().height}) {
    pixels.convert_rows(passes.front(), out);
  } else {
    // Pillow puts interlaced frames into the corner.
    pixels.convert_pixels(passes, found, chunks.interlaced() ? 0 : frame.x,
                          chunks.interlaced() ? 0 : frame.y, out);
  }
  return {};
}

}  // namespace foreload
