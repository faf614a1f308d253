// SPDX-License-Identifier: Apache-2.0
//
// GIF: what a file declares, and the pixels of a region of its first frame. For decoder.h only.
//
// Files are taken and refused as by Pillow. A frame that reaches beyond the image makes it larger;
// what a frame does not cover is its transparent colour, or the first one; the mark at the end of
// the pixels counts for less than the number of pixels; a palette that is a ramp of greys is none.
#pragma once

#include "foreload/decode/image_format.h"

namespace foreload {

bool is_gif(std::span<const std::byte> file);

Result<ImageHeader> read_gif_header(std::span<const std::byte> file, bool orientation);

// The frame is unpacked whatever the region is: damage below it is noticed.
Result<void> decode_gif(const EncodedRegion& from, const DecodeOptions& options, PixelBuffer& out,
                        Scratch& scratch);

}  // namespace foreload
