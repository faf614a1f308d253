// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/resample.h"

#include "foreload/decode/row_resampler.h"

namespace foreload {

void resample(const PixelView& in, const Box& box, ImageSize size, Interpolation interpolation,
              bool flip, PixelBuffer& out, Scratch& scratch) {
  resample(in, box, size, interpolation, flip, out, scratch, best_kernels());
}

void resample(const PixelView& in, const Box& box, ImageSize size, Interpolation interpolation,
              bool flip, PixelBuffer& out, Scratch& scratch, const PixelKernels& kernels) {
  const Resizing resizing{
      .x = {in.size.width, box.left, box.right, size.width, 0, size.width},
      .y = {in.size.height, box.top, box.bottom, size.height, 0, size.height},
      .interpolation = interpolation,
      .flip = flip,
  };
  out.reset(size, in.channels);
  RowResampler rows(in, {}, resizing, kernels, scratch);
  for (uint32_t y = 0; y < size.height; ++y) rows.next(out.row(y));
}

}  // namespace foreload
