// SPDX-License-Identifier: Apache-2.0
//
// WebP: what a file declares, and the pixels of a region of it, through libwebp. For decoder.h
// only; here regions are those of the stored image, before it is turned. Of an animation the first
// frame is decoded, and what it does not cover is black (transparent, where alpha is kept), as in
// Pillow.
#pragma once

#include <string>

#include "foreload/decode/image_format.h"

namespace foreload {

// "libwebp 1.3.2".
std::string webp_library();

bool is_webp(std::span<const std::byte> file);

Result<ImageHeader> read_webp_header(std::span<const std::byte> file, bool orientation);

// Rows below the region are not decoded: a file that is too short is refused all the same, other
// damage there goes unnoticed. REQUIRES: the region lies inside, and not wide.
Result<void> decode_webp(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                         Scratch& scratch);

}  // namespace foreload
