// SPDX-License-Identifier: Apache-2.0
//
// JPEG: what a file declares, and the pixels of a region of it, through libjpeg-turbo with the
// settings Pillow uses (exact integer DCT, smooth upsampling of colour). For decoder.h only, which
// says what the arguments mean; here regions are those of the stored image, before it is turned.
#pragma once

#include <string>

#include "foreload/decode/image_format.h"

namespace foreload {

// "libjpeg-turbo 3001000".
std::string jpeg_library();

bool is_jpeg(std::span<const std::byte> file);

// Walks the markers up to the first scan and refuses what Pillow refuses while it opens a file.
Result<ImageHeader> read_jpeg_header(std::span<const std::byte> file, bool orientation);

// Whether entropy-coded data, of which `data` is the rest with whatever follows, goes on to an end
// marker without any other but those of restarts: then there is nothing in it to refuse a file for.
bool only_end_marker_ahead(std::span<const std::byte> data);

// Refuses what Pillow refuses, wherever in the file it is. REQUIRES: rgb or grey, not wide.
Result<void> decode_jpeg(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                         Scratch& scratch);

}  // namespace foreload
