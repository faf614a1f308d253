// SPDX-License-Identifier: Apache-2.0
//
// Which way up an image is, as cameras and editors note it in the metadata beside the pixels. Looks
// where Pillow looks and believes what Pillow believes. Pure functions over untrusted bytes.
#pragma once

#include <cstddef>
#include <span>

namespace foreload {

// The orientation, 1 to 8, that the TIFF block inside EXIF metadata declares in its first
// directory: 1 if it declares nonsense, 0 if it declares none or is malformed.
int tiff_orientation(std::span<const std::byte> tiff);
// The same of an XMP packet.
int xmp_orientation(std::span<const std::byte> xmp);

}  // namespace foreload
