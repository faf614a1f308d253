// SPDX-License-Identifier: Apache-2.0
//
// JPEG files of any kind libjpeg can write, made in memory from a picture with edges, slopes and
// noise, so that a wrong row, column or colour shows.
#pragma once

#include <jpeglib.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/random.h"

namespace foreload {

struct JpegKind {
  uint32_t width = 61;
  uint32_t height = 47;
  int channels = 3;  // 1 grey, 3 YCbCr, 4 CMYK
  std::array<std::array<int, 2>, 4> sampling{{{2, 2}, {1, 1}, {1, 1}, {1, 1}}};  // across, down
  bool progressive = false;
  bool separate_scans = false;  // one for each channel
  bool arithmetic = false;
  unsigned restart_blocks = 0;
  int quality = 88;

  std::string text() const {
    std::string found = fmt::format("{} x {}, {} channels, sampling", width, height, channels);
    for (int i = 0; i < channels; ++i) {
      const auto [across, down] = sampling[static_cast<size_t>(i)];
      found += fmt::format(" {}x{}", across, down);
    }
    if (progressive) found += ", progressive";
    if (separate_scans) found += ", separate scans";
    if (arithmetic) found += ", arithmetic";
    return found + fmt::format(", restart {}", restart_blocks);
  }
};

inline std::vector<uint8_t> picture_row(uint32_t y, const JpegKind& kind) {
  std::vector<uint8_t> row;
  for (uint32_t x = 0; x < kind.width; ++x) {
    const uint64_t noise = mix64(uint64_t{y} << 32 | x);
    for (int c = 0; c < kind.channels; ++c) {
      const uint32_t edge = ((x + static_cast<uint32_t>(c) * 3) / 7 + y / 5) % 2 * 120;
      const uint32_t slope = (c % 2 == 0 ? x : y) * 80 / kind.width % 110;
      row.push_back(static_cast<uint8_t>(edge + slope + (noise >> (8 * c)) % 24));
    }
  }
  return row;
}

// The input of libjpeg is taken as the file's own colours, so that every channel has edges.
inline std::vector<std::byte> make_jpeg(const JpegKind& kind) {
  jpeg_compress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &memory, &size);
  info.image_width = kind.width;
  info.image_height = kind.height;
  info.input_components = kind.channels;
  info.in_color_space = kind.channels == 1   ? JCS_GRAYSCALE
                        : kind.channels == 3 ? JCS_YCbCr
                                             : JCS_CMYK;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kind.quality, TRUE);
  for (int i = 0; i < kind.channels; ++i) {
    const auto [across, down] = kind.sampling[static_cast<size_t>(i)];
    info.comp_info[i].h_samp_factor = across;
    info.comp_info[i].v_samp_factor = down;
  }
  info.restart_interval = kind.restart_blocks;
  info.arith_code = kind.arithmetic ? TRUE : FALSE;
  info.optimize_coding = kind.arithmetic ? FALSE : TRUE;
  std::array<jpeg_scan_info, 4> scans{};
  if (kind.progressive) jpeg_simple_progression(&info);
  if (kind.separate_scans) {
    for (int i = 0; i < kind.channels; ++i) {
      scans[static_cast<size_t>(i)] = {1, {i, 0, 0, 0}, 0, 63, 0, 0};
    }
    info.scan_info = scans.data();
    info.num_scans = kind.channels;
  }
  jpeg_start_compress(&info, TRUE);
  for (uint32_t y = 0; y < kind.height; ++y) {
    std::vector<uint8_t> row = picture_row(y, kind);
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&info, rows, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
  const auto* const begin = reinterpret_cast<const std::byte*>(memory);
  std::vector<std::byte> file(begin, begin + size);
  std::free(memory);
  return file;
}

}  // namespace foreload
