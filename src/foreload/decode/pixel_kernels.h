// SPDX-License-Identifier: Apache-2.0
//
// The loops over pixels that SIMD makes faster, one table of functions per instruction set. All
// tables give the same bits; a machine uses the best one it has. Written with compiler intrinsics
// behind function attributes, so that one binary holds them all and needs no library.
//
// Any thread may call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "foreload/decode/resample_weights.h"

namespace foreload {

struct RowWriter;

struct PixelKernels {
  const char* name;

  // Rows of three interleaved channels. `packed` is what `pack` made of the same weights, of
  // packed_words() words. Reads up to 64 bytes after the last pixel of a row, writes up to 64 bytes
  // after the last output. REQUIRES: rows <= kRowsAtOnce.
  void (*pack)(const AxisWeights& weights, int32_t* packed);
  void (*horizontal)(const uint8_t* const* in, uint8_t* const* out, unsigned rows,
                     const AxisWeights& weights, const int32_t* packed);

  // One output row from `taps` input rows of `bytes` bytes. Reads and writes up to 64 bytes after
  // the end of rows. REQUIRES: taps > 0 and a multiple of 4; rows past the used ones have weight 0.
  void (*vertical)(const uint8_t* const* in, const int32_t* weights, unsigned taps, size_t bytes,
                   uint8_t* out);

  // Converts a row of `width` pixels and writes exactly its place. Channels of layout chw lie
  // `plane` bytes apart. Reads up to 64 bytes after the row.
  void (*write)(const RowWriter& writer, const uint8_t* row, uint32_t width, std::byte* out,
                size_t plane);
};

inline constexpr unsigned kRowsAtOnce = 4;

// One channel only, every machine alike: grey images are rare.
void horizontal_grey(const uint8_t* const* in, uint8_t* const* out, unsigned rows,
                     const AxisWeights& weights);

inline size_t packed_words(const AxisWeights& weights) {
  return weights.starts.size() * weights.stride;
}

extern const PixelKernels kPortableKernels;

// Those this machine can run, best first; the portable ones are last.
std::vector<const PixelKernels*> usable_kernels();
const PixelKernels& best_kernels();

}  // namespace foreload
