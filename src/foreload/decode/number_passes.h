// SPDX-License-Identifier: Apache-2.0
//
// Carries out the passes of a sample's plan for images of numbers (number_image.h). Sizes are
// changed as Pillow does it: bytes with fixed-point weights, everything else (its modes "I;16", "I"
// and "F", here for each channel) in double precision, and colours weighed by their alpha.
//
// Any thread may call it, each with a Scratch of its own.
#pragma once

#include <cstddef>
#include <span>

#include "foreload/base/result.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/row_writer.h"
#include "foreload/decode/sample_plan.h"
#include "foreload/decode/transform.h"

namespace foreload {

struct NumberSettings {
  DecodeOptions options;  // `wide` follows from the type
  PixelType decoded = PixelType::uint8;
  OutputForm form;
  ValueMath math;
};

// Fails with `invalid` as decode() does, and where a file holds another type. REQUIRES: `into` has
// room for the plan's result; no pass has operations on pictures; if the format is `other` and the
// file no .npy one, scratch.decoded holds the whole image.
Result<void> run_number_passes(std::span<const std::byte> file, const ImageHeader& header,
                               const SamplePlan& plan, const NumberSettings& settings,
                               std::span<std::byte> into, Scratch& scratch);

}  // namespace foreload
