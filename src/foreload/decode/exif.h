// SPDX-License-Identifier: Apache-2.0
//
// Which way up an image is, as cameras and editors note it in the metadata beside the pixels. Looks
// where Pillow looks and believes what Pillow believes. Pure functions over untrusted bytes.
#pragma once

#include <cstddef>
#include <span>

#include "foreload/base/result.h"

namespace foreload {

// The orientation, 1 to 8, that a block of EXIF metadata declares in its first directory: 1 if it
// declares nonsense, 0 if it declares none. `block` is a TIFF file, as PNG and WebP hold it, or one
// behind "Exif\0\0", once or twice, as JPEG holds it; an empty one declares none. Fails with
// `invalid` where Pillow's Image.getexif() raises: what is there is not TIFF.
Result<int> exif_orientation(std::span<const std::byte> block);
// The same of an XMP packet, which never fails.
int xmp_orientation(std::span<const std::byte> xmp);

}  // namespace foreload
