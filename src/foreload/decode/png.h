// SPDX-License-Identifier: Apache-2.0
//
// PNG: what a file declares, and the pixels of a region of it. For decoder.h only; here regions are
// those of the stored image, before it is turned.
//
// Files are taken and refused as by Pillow, which is laxer than the standard: png_chunks.h says
// where. The compressed data are read to their end whatever the region is, because Pillow refuses
// an image that is damaged below it.
#pragma once

#include "foreload/decode/image_format.h"

namespace foreload {

bool is_png(std::span<const std::byte> file);

// Looks at the chunks before the pixels (at all of them, if the orientation is wanted).
Result<ImageHeader> read_png_header(std::span<const std::byte> file, bool orientation);

// REQUIRES: read_png_header() has found the image's size, and the region lies inside.
Result<void> decode_png(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                        Scratch& scratch);

}  // namespace foreload
