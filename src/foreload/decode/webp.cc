// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/webp.h"

#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include <fmt/format.h>

#include "foreload/decode/colors.h"
#include "foreload/decode/exif.h"

namespace foreload {
namespace {

using WebpDemuxer = std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)>;

WebPData data_of(std::span<const std::byte> file) {
  return {reinterpret_cast<const uint8_t*>(file.data()), file.size()};
}

Result<WebpDemuxer> open_webp(std::span<const std::byte> file) {
  const WebPData data = data_of(file);
  WebpDemuxer demuxer(WebPDemux(&data), WebPDemuxDelete);
  if (demuxer) return demuxer;
  WebPDemuxState state = WEBP_DEMUX_PARSE_ERROR;
  const WebpDemuxer part(WebPDemuxPartial(&data, &state), WebPDemuxDelete);
  if (state == WEBP_DEMUX_PARSE_ERROR)
    return fail(ErrorKind::invalid, "corrupt WebP image: its chunks make no sense; copy it again");
  return fail(ErrorKind::invalid, "truncated WebP image: the file ends inside it; copy it again");
}

// Bytes of the first chunk of this name; none if there is none.
std::span<const std::byte> chunk_of(const WebPDemuxer* demuxer, const char* name) {
  WebPChunkIterator found;
  if (WebPDemuxGetChunk(demuxer, name, 1, &found) == 0) return {};
  const auto bytes = std::as_bytes(std::span(found.chunk.bytes, found.chunk.size));
  WebPDemuxReleaseChunkIterator(&found);  // the bytes are the file's
  return bytes;
}

struct WebpFrame {
  Region place;  // in the image
  std::span<const uint8_t> data;
};

// What of [begin, begin + length) lies in a frame's side, relative to the frame.
struct WebpSide {
  uint32_t begin = 0;
  uint32_t end = 0;
};

WebpSide inside_frame(uint32_t begin, uint32_t length, uint32_t frame, uint32_t frame_length) {
  const auto limited = [&](uint32_t at) {
    return std::min(at - std::min(at, frame), frame_length);
  };
  return {limited(begin), limited(begin + length)};
}

// What to decode of a frame's side so that the wanted pixels are what they are in the whole:
// colours are stored for two by two pixels, and made smooth with those of the neighbours. Never
// empty.
WebpSide with_margins(const WebpSide& wanted, uint32_t length) {
  constexpr uint32_t kMargin = 2;
  const uint32_t begin = std::min(wanted.begin, length - 1);
  const uint32_t end = std::max(wanted.end, begin + 1);
  return {(begin - std::min(begin, kMargin)) & ~1u, std::min(end + kMargin, length)};
}

Result<PixelView> decode_part(const WebpFrame& frame, const Region& part, uint32_t channels,
                              std::vector<uint8_t>& memory) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0)
    return fail(ErrorKind::invalid, "libwebp is not the version that foreload was built with");
  const size_t stride = size_t{part.width} * channels;
  const size_t needed = stride * part.height;
  if (memory.size() < needed) memory.resize(needed);
  config.options.use_cropping = 1;
  config.options.crop_left = static_cast<int>(part.x);
  config.options.crop_top = static_cast<int>(part.y);
  config.options.crop_width = static_cast<int>(part.width);
  config.options.crop_height = static_cast<int>(part.height);
  config.output.colorspace = channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {memory.data(), static_cast<int>(stride), needed};
  const VP8StatusCode status = WebPDecode(frame.data.data(), frame.data.size(), &config);
  if (status == VP8_STATUS_OK)
    return PixelView{memory.data(), {part.width, part.height}, channels, stride};
  if (status == VP8_STATUS_OUT_OF_MEMORY)
    return fail(ErrorKind::invalid, "no memory for a WebP image");
  return fail(ErrorKind::invalid,
              "corrupt WebP image: its pixels are damaged or incomplete; copy it again");
}

void convert_webp_row(const uint8_t* from, uint32_t pixels, const DecodeOptions& options,
                      bool opaque, uint8_t* out) {
  switch (options.mode) {
    case ColorMode::rgb:
      std::memcpy(out, from, size_t{3} * pixels);
      return;
    case ColorMode::grey:
      return rgb_to_grey(from, pixels, out);
    case ColorMode::rgba:
      std::memcpy(out, from, size_t{4} * pixels);
      for (uint32_t x = 0; opaque && x < pixels; ++x) out[4 * size_t{x} + 3] = 255;
      return;
  }
}

}  // namespace

std::string webp_library() {
  const int version = WebPGetDecoderVersion();
  return fmt::format("libwebp {}.{}.{}", version >> 16, version >> 8 & 255, version & 255);
}

bool is_webp(std::span<const std::byte> file) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.size() < 16 || !text.starts_with("RIFF") || text.substr(8, 4) != "WEBP") return false;
  const std::string_view first = text.substr(12, 4);
  return first == "VP8 " || first == "VP8L" || first == "VP8X";
}

Result<ImageHeader> read_webp_header(std::span<const std::byte> file, bool orientation) {
  FORELOAD_TRY(const WebpDemuxer demuxer, open_webp(file));
  ImageHeader header{.size = {WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH),
                              WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT)}};
  if (orientation) {
    FORELOAD_TRY(int found, exif_orientation(chunk_of(demuxer.get(), "EXIF")));
    if (found == 0) found = xmp_orientation(chunk_of(demuxer.get(), "XMP "));
    if (found != 0) header.orientation = found;
  }
  return header;
}

Result<void> decode_webp(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                         Scratch& scratch) {
  const Region& region = from.region;
  FORELOAD_TRY(const WebpDemuxer demuxer, open_webp(from.file));
  WebPIterator first;
  if (WebPDemuxGetFrame(demuxer.get(), 1, &first) == 0)
    return fail(ErrorKind::invalid, "corrupt WebP image: it has no frame; copy it again");
  const WebpFrame frame{
      {static_cast<uint32_t>(first.x_offset), static_cast<uint32_t>(first.y_offset),
       static_cast<uint32_t>(first.width), static_cast<uint32_t>(first.height)},
      {first.fragment.bytes, first.fragment.size}};
  WebPDemuxReleaseIterator(&first);  // the bytes are the file's

  const WebPData data = data_of(from.file);
  WebPBitstreamFeatures features;
  const bool opaque =
      WebPGetFeatures(data.bytes, data.size, &features) == VP8_STATUS_OK && features.has_alpha == 0;
  const WebpSide columns = inside_frame(region.x, region.width, frame.place.x, frame.place.width);
  const WebpSide rows = inside_frame(region.y, region.height, frame.place.y, frame.place.height);
  const auto [x, right] = with_margins(columns, frame.place.width);
  const auto [y, bottom] = with_margins(rows, frame.place.height);
  const uint32_t channels = options.mode == ColorMode::rgba ? 4 : 3;
  FORELOAD_TRY(const PixelView decoded,
               decode_part(frame, {x, y, right - x, bottom - y}, channels, scratch.bytes));

  const uint32_t made = channels_of(options.mode);
  out.reset({region.width, region.height}, made);
  const bool covered =
      columns.end - columns.begin == region.width && rows.end - rows.begin == region.height;
  for (uint32_t i = 0; !covered && i < region.height; ++i) {
    for (uint32_t k = 0; k < region.width; ++k) {
      uint8_t* const pixel = out.row(i) + size_t{k} * made;
      std::memset(pixel, 0, made);
      if (made == 4 && opaque) pixel[3] = 255;
    }
  }
  const uint32_t left = std::max(frame.place.x, region.x) - region.x;
  const uint32_t top = std::max(frame.place.y, region.y) - region.y;
  for (uint32_t i = rows.begin; i < rows.end && columns.begin < columns.end; ++i) {
    convert_webp_row(decoded.row(i - y) + size_t{columns.begin - x} * channels,
                     columns.end - columns.begin, options, opaque,
                     out.row(top + i - rows.begin) + size_t{left} * made);
  }
  return {};
}

}  // namespace foreload
