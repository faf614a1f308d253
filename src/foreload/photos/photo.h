// SPDX-License-Identifier: Apache-2.0
//
// Pictures that cost a decoder what photographs cost it: things with soft and sharp edges lie over
// each other, and all of it has texture at every scale, some parts rough, some smooth, as in nature
// (about equal strength in every octave). For data sets of demonstrations, tests and benchmarks.
//
// A photo is a function of its size, seed and subject alone, to the last bit. Photos of one subject
// have colours and a pattern in common, so that a network can learn to tell subjects apart.
//
// Pure; any thread may call it.
#pragma once

#include <cstdint>

#include "foreload/decode/pixels.h"

namespace foreload {

// `pixels` gets the size and three channels. REQUIRES: neither side is 0.
void make_photo(ImageSize size, uint64_t seed, uint64_t subject, PixelBuffer& pixels);

}  // namespace foreload
