// SPDX-License-Identifier: Apache-2.0
//
// Carries out the passes of a sample's plan: decodes what the first one needs, resizes, pads and
// flips row by row, changes whole pictures, and hands the rows of the last one to the output's
// writer.
//
// Any thread may call it, each with a Scratch of its own.
#pragma once

#include <cstddef>
#include <span>

#include "foreload/base/result.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/row_writer.h"
#include "foreload/decode/sample_plan.h"

namespace foreload {

struct PassSettings {
  DecodeOptions options;
  bool fast = false;  // JPEG may be decoded at 1/2, 1/4 or 1/8
  const RowWriter* writer = nullptr;
  const PixelKernels* kernels = nullptr;
};

// The largest of 8 and 4 at which the shrunk crop is still as large as what becomes of it, 2 where
// it has three quarters of the sides, or 1. Photos then come out 1 to 3 grey levels off on average;
// with less than that, finely structured ones are soon beyond 3.
unsigned shrink_for(const Pass& pass);

// Fails with `invalid` as decode() does. REQUIRES: `into` has room for the plan's result; if the
// format is `other`, scratch.decoded holds the whole image.
Result<void> run_passes(std::span<const std::byte> file, const ImageHeader& header,
                        const SamplePlan& plan, const PassSettings& settings,
                        std::span<std::byte> into, Scratch& scratch);

}  // namespace foreload
