// SPDX-License-Identifier: Apache-2.0
//
// A format that is decoded here. Each is a file of three functions and a row of the table in
// decoder.cc; nothing else asks which format an image has. For decoder.h only.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "foreload/base/result.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/pixels.h"

namespace foreload {

// What to decode of a file whose header was read.
struct EncodedRegion {
  std::span<const std::byte> file;
  const ImageHeader& header;
  Region region;        // of the stored image, before it is turned
  unsigned shrink = 1;  // other than 1 only where the header says that it can be
};

struct ImageFormat {
  std::string_view name;  // "JPEG"
  // What decode() can give. Without it, it is asked for less, and alpha is 255 and wide values are
  // those of a byte times 257.
  bool gives_alpha;
  bool gives_wide;
  // By the first bytes.
  bool (*is)(std::span<const std::byte> file);
  Result<ImageHeader> (*read_header)(std::span<const std::byte> file, bool orientation);
  Result<void> (*decode)(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                         Scratch& scratch);
};

}  // namespace foreload
