// SPDX-License-Identifier: Apache-2.0
//
// PNG files for tests, of 8 bits per channel.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "foreload/decode/pixels.h"

namespace foreload {

inline void append_number(std::vector<std::byte>& bytes, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8)
    bytes.push_back(static_cast<std::byte>(number >> shift & 0xFF));
}

inline void append_chunk(std::vector<std::byte>& file, std::string_view name,
                         const std::vector<std::byte>& body) {
  append_number(file, static_cast<uint32_t>(body.size()));
  const size_t begin = file.size();
  for (const char letter : name) file.push_back(static_cast<std::byte>(letter));
  file.insert(file.end(), body.begin(), body.end());
  append_number(file,
                static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(file.data()) + begin,
                                            static_cast<uInt>(file.size() - begin))));
}

// `rows` are rows of one or three channels, each behind the number of its filter.
inline std::vector<std::byte> png_of(ImageSize size, uint32_t channels,
                                     const std::vector<uint8_t>& rows) {
  std::vector<std::byte> header;
  append_number(header, size.width);
  append_number(header, size.height);
  for (const int value : {8, channels == 3 ? 2 : 0, 0, 0, 0})
    header.push_back(static_cast<std::byte>(value));
  uLongf bytes = compressBound(rows.size());
  std::vector<std::byte> pixels(bytes);
  compress2(reinterpret_cast<Bytef*>(pixels.data()), &bytes, rows.data(), rows.size(), 1);
  pixels.resize(bytes);
  std::vector<std::byte> file;
  append_number(file, 0x89504E47);
  append_number(file, 0x0D0A1A0A);
  append_chunk(file, "IHDR", header);
  append_chunk(file, "IDAT", pixels);
  append_chunk(file, "IEND", {});
  return file;
}

}  // namespace foreload
