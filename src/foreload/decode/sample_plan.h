// SPDX-License-Identifier: Apache-2.0
//
// What a chain does to one sample, with all random parameters drawn and all sizes known. Steps are
// merged into as few passes over pixels as give the same bits: a chain of crops, one resize, crops
// and a flip is one pass, and each pass touches only the pixels that its result needs.
//
// Pure functions; any thread may call them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/sample_random.h"
#include "foreload/decode/steps.h"

namespace foreload {

struct JitterDraw {
  std::array<double, 3> factors{1, 1, 1};  // brightness, contrast, saturation
  std::array<uint8_t, 3> order{0, 1, 2};   // indices into `factors`
};

// A crop of the input is resized, of that a window is taken, which is flipped, and then its colors
// are changed.
struct Pass {
  Region crop;        // of the input; the whole resize sees nothing outside it
  ImageSize resized;  // of the crop
  Interpolation interpolation = Interpolation::bilinear;
  // The window in the resized image. It may reach outside, where `fill` is.
  int64_t left = 0;
  int64_t top = 0;
  ImageSize size;
  std::array<uint8_t, 3> fill{0, 0, 0};
  bool flip = false;
  std::optional<JitterDraw> jitter;

  bool resizes() const { return resized != ImageSize{crop.width, crop.height}; }
  // Whether the window is the resized image.
  bool whole() const { return left == 0 && top == 0 && size == resized; }
  // Whether the window lies in the resized image.
  bool inside() const;
};

// At least one pass; the first one's input is the upright image.
struct SamplePlan {
  std::vector<Pass> passes;
  ImageSize size() const { return passes.back().size; }
};

// Fails with `invalid` where a crop needs a larger image, or a result would be too large or empty.
Result<SamplePlan> plan_sample(const std::vector<Step>& steps, ImageSize image,
                               const SampleKey& key);

// Whether the step draws random numbers.
bool is_random(const Step& step);

}  // namespace foreload
