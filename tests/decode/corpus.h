// SPDX-License-Identifier: Apache-2.0
//
// Files for the tests of decoders: the committed corpus that make_corpus.py writes, and small
// conveniences to decode and compare.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/decode/decoder.h"

namespace foreload {

using Bytes = std::vector<std::byte>;

inline std::filesystem::path corpus_folder() {
  return std::filesystem::path(__FILE__).parent_path() / "data";
}

inline Bytes read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  EXPECT_TRUE(in.good()) << file;
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline Bytes corpus_file(const std::string& name) {
  return read_file(corpus_folder() / name);
}

// Pixels without the space between rows.
struct Pixels {
  ImageSize size;
  uint32_t channels = 0;
  std::vector<uint8_t> bytes;

  Pixels part(const Region& region) const {
    Pixels found{{region.width, region.height}, channels, {}};
    for (uint32_t y = region.y; y < region.y + region.height; ++y) {
      const size_t first = (size_t{y} * size.width + region.x) * channels;
      const auto begin = bytes.begin() + static_cast<ptrdiff_t>(first);
      found.bytes.insert(found.bytes.end(), begin, begin + ptrdiff_t{region.width} * channels);
    }
    return found;
  }
  friend bool operator==(const Pixels&, const Pixels&) = default;
};

inline Pixels pixels_of(const PixelView& view) {
  Pixels pixels{view.size, view.channels, {}};
  for (uint32_t y = 0; y < view.size.height; ++y) {
    pixels.bytes.insert(pixels.bytes.end(), view.row(y),
                        view.row(y) + size_t{view.size.width} * view.channels);
  }
  return pixels;
}

inline ImageSize shrunk_size(ImageSize size, unsigned shrink) {
  return {(size.width + shrink - 1) / shrink, (size.height + shrink - 1) / shrink};
}

inline Region whole(ImageSize size) {
  return {0, 0, size.width, size.height};
}

inline Result<Pixels> decode_region(std::span<const std::byte> file, const DecodeOptions& options,
                                    const Region& region, unsigned shrink, Scratch& scratch) {
  FORELOAD_TRY(const ImageHeader header, read_header(file, options));
  FORELOAD_CHECK(decode(file, header, options, region, shrink, scratch.decoded, scratch));
  return pixels_of(scratch.decoded.view());
}

inline Result<Pixels> decode_all(std::span<const std::byte> file, const DecodeOptions& options = {},
                                 unsigned shrink = 1) {
  Scratch scratch;
  FORELOAD_TRY(const ImageHeader header, read_header(file, options));
  return decode_region(file, options, whole(shrunk_size(header.upright(), shrink)), shrink,
                       scratch);
}

inline std::string flaw_of(std::span<const std::byte> file, const DecodeOptions& options = {}) {
  const auto pixels = decode_all(file, options);
  return pixels ? "no flaw" : pixels.error().message;
}

inline uint64_t fnv1a(std::span<const uint8_t> bytes) {
  uint64_t digest = 0xcbf29ce484222325u;
  for (const uint8_t byte : bytes) digest = (digest ^ byte) * 0x100000001b3u;
  return digest;
}

}  // namespace foreload
