// SPDX-License-Identifier: Apache-2.0
//
// Pixels as a JPEG file in memory, written as cameras and the web write photos: colour at half the
// resolution, libjpeg's standard tables. For what makes data sets; decoding is elsewhere.
//
// Pure; any thread may call it.
#pragma once

#include <cstddef>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/pixels.h"

namespace foreload {

struct JpegStyle {
  int quality = 94;  // 1 to 100
  bool progressive = false;
};

// Fails with `invalid` for a size that JPEG cannot have. REQUIRES: three channels.
Result<std::vector<std::byte>> write_jpeg(const PixelView& pixels, const JpegStyle& style);

}  // namespace foreload
