// SPDX-License-Identifier: Apache-2.0
//
// Pictures for tests of loaders.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace foreload {

// A PNG written byte by byte, in stored blocks without compression: needs no library.
inline std::string png(uint32_t width, uint32_t height, uint32_t shade) {
  auto big = [](uint32_t value) {
    std::string text;
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(value >> shift);
    return text;
  };
  auto crc = [](const std::string& bytes) {
    uint32_t value = 0xffffffff;
    for (const char byte : bytes) {
      value ^= static_cast<uint8_t>(byte);
      for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320u : 0);
    }
    return ~value;
  };
  auto chunk = [&](const std::string& kind, const std::string& body) {
    return big(static_cast<uint32_t>(body.size())) + kind + body + big(crc(kind + body));
  };
  std::string rows;
  for (uint32_t y = 0; y < height; ++y) {
    rows += '\0';
    for (uint32_t x = 0; x < width; ++x)
      for (uint32_t c = 0; c < 3; ++c) rows += static_cast<char>(shade + 3 * x + 5 * y + 40 * c);
  }
  uint32_t a = 1;
  uint32_t b = 0;
  for (const char byte : rows) {
    a = (a + static_cast<uint8_t>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  std::string zlib("\x78\x01", 2);
  for (size_t first = 0; first < rows.size(); first += 65535) {
    const size_t length = std::min<size_t>(65535, rows.size() - first);
    zlib += static_cast<char>(first + length == rows.size());
    zlib += static_cast<char>(length & 255);
    zlib += static_cast<char>(length >> 8);
    zlib += static_cast<char>(~length & 255);
    zlib += static_cast<char>(~length >> 8 & 255);
    zlib += rows.substr(first, length);
  }
  zlib += big(b << 16 | a);
  return std::string("\x89PNG\r\n\x1a\n", 8) +
         chunk("IHDR", big(width) + big(height) + std::string("\x08\x02\0\0\0", 5)) +
         chunk("IDAT", zlib) + chunk("IEND", "");
}

}  // namespace foreload
