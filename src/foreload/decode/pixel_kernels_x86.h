// SPDX-License-Identifier: Apache-2.0
//
// The kernels for x86-64 machines with AVX2, and with AVX-512 and its 8-bit dot products (VNNI).
// Weights of 22 bits do not fit the fast multipliers, so they are split into limbs, each multiplied
// by the pixels on its own and added up at its place: exact, as the portable sums are.
#pragma once

#include "foreload/decode/pixel_kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define FORELOAD_X86_KERNELS 1

namespace foreload {

extern const PixelKernels kAvx2Kernels;
extern const PixelKernels kAvx512Kernels;

}  // namespace foreload
#endif
