// SPDX-License-Identifier: Apache-2.0
//
// JPEG: what a file declares, and the pixels of a region of it, through libjpeg-turbo with the
// settings Pillow uses (exact integer DCT, smooth upsampling of colour). For decoder.h only, which
// says what the arguments mean; here regions are those of the stored image, before it is turned.
#pragma once

#include <cstddef>
#include <span>

#include "foreload/base/result.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/pixels.h"

namespace foreload {

bool is_jpeg(std::span<const std::byte> file);

// Walks the markers up to the frame (to the scan, if the orientation is wanted); takes no memory.
Result<ImageHeader> read_jpeg_header(std::span<const std::byte> file, bool orientation);

// `size` is the stored size that the header declared. REQUIRES: rgb or grey, not wide.
Result<void> decode_jpeg(std::span<const std::byte> file, ImageSize size,
                         const DecodeOptions& options, const Region& region, unsigned shrink,
                         PixelBuffer& out, Scratch& scratch);

}  // namespace foreload
