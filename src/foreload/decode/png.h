// SPDX-License-Identifier: Apache-2.0
//
// PNG: what a file declares, and the pixels of a region of it, through libpng. For decoder.h only;
// here regions are those of the stored image, before it is turned.
//
// Colours are Pillow's: alpha and declared transparent colours are dropped, 16-bit channels keep
// their high byte, except that greyscale of 16 bits is clipped at 255 (Pillow's I;16), and palette
// entries that the file does not define are black. With alpha (rgba), declared transparent colours
// and palette entries have an alpha of 0, and what has none is opaque; wide, 16-bit channels are
// kept. Stricter than Pillow in one thing: a wrong checksum is an error in the pixel data too.
#pragma once

#include <cstddef>
#include <span>

#include "foreload/base/result.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/pixels.h"

namespace foreload {

bool is_png(std::span<const std::byte> file);

// Looks at the first chunk (at all of them, if the orientation is wanted); takes no memory.
Result<ImageHeader> read_png_header(std::span<const std::byte> file, bool orientation);

// The whole image is decoded, so that damage anywhere is noticed. `size` is what the header
// declared.
Result<void> decode_png(std::span<const std::byte> file, ImageSize size,
                        const DecodeOptions& options, const Region& region, PixelBuffer& out,
                        Scratch& scratch);

}  // namespace foreload
