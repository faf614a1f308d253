// SPDX-License-Identifier: Apache-2.0
//
// Turning an image as its EXIF orientation says, bit for bit as Pillow's ImageOps.exif_transpose.
// A region of the upright image is found in the stored one first, so that only its pixels are
// decoded and moved. Pure functions.
#pragma once

#include "foreload/decode/pixels.h"

namespace foreload {

// Whether an orientation makes width of height. REQUIRES: 1 <= orientation <= 8, here and below.
bool swaps_sides(int orientation);
ImageSize upright_size(ImageSize stored, int orientation);
// Where `region` of the upright image lies in the stored one, whose size is `stored`.
Region stored_region(const Region& region, ImageSize stored, int orientation);
// Writes the upright form of `in` to `out`, which is different memory.
void turn_upright(const PixelView& in, int orientation, PixelBuffer& out);

}  // namespace foreload
