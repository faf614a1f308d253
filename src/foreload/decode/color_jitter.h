// SPDX-License-Identifier: Apache-2.0
//
// Brightness, contrast and saturation with the arithmetic of Pillow's ImageEnhance: each blends the
// image with a plainer one (black; its mean grey; its grey form) in single precision and cuts off
// to 8 bits. Bit for bit what Pillow gives.
//
// For one thread per image.
#pragma once

#include "foreload/decode/pixels.h"
#include "foreload/decode/sample_plan.h"

namespace foreload {

// Changes the colors of `pixels` in place.
void apply(const JitterDraw& jitter, PixelBuffer& pixels);

}  // namespace foreload
