// SPDX-License-Identifier: Apache-2.0
//
// What a chain does to one sample, with all random parameters drawn and all sizes known. Steps are
// merged into as few passes over pixels as give the same bits: a chain of crops, one resize, crops
// and flips is one pass, and each pass touches only the pixels that its result needs. What needs
// the whole picture (picture_ops.h) ends a pass.
//
// Pure functions; any thread may call them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/picture_ops.h"
#include "foreload/decode/sample_random.h"
#include "foreload/decode/steps.h"

namespace foreload {

// A rectangle that may reach outside an image.
struct Window {
  int64_t left = 0;
  int64_t top = 0;
  ImageSize size;
};

// A crop of the input is resized, of that a window is taken, which is flipped, and then the picture
// is changed as a whole.
struct Pass {
  Region crop;        // of the input; the whole resize sees nothing outside it
  ImageSize resized;  // of the crop
  Interpolation interpolation = Interpolation::bilinear;
  ResizeRule rule = ResizeRule::pillow;
  // The window in the resized image. It may reach outside, where `fill` is.
  int64_t left = 0;
  int64_t top = 0;
  ImageSize size;
  std::array<uint8_t, 3> fill{0, 0, 0};
  bool flip = false;       // left to right
  bool flip_rows = false;  // top to bottom
  std::vector<PictureOp> ops;

  bool resizes() const { return resized != ImageSize{crop.width, crop.height}; }
  // Whether the window is the resized image.
  bool whole() const { return left == 0 && top == 0 && size == resized; }
  // Whether the window lies in the resized image.
  bool inside() const;
  // After all operations.
  ImageSize result() const;
};

// A part of the finished sample that is overwritten, in the output's type.
struct Erasure {
  Region box;
  std::array<float, 3> value{0, 0, 0};
  // Normal numbers instead of the value, drawn from here.
  std::optional<StepRandom> noise;
};

// One of several pictures that are cut out of the last pass's result.
struct Cutting {
  Window window;
  bool flip = false;
  bool flip_rows = false;
};

// At least one pass; the first one's input is the upright image.
struct SamplePlan {
  std::vector<Pass> passes;
  std::vector<Cutting> cuttings;  // none: the result is one picture
  std::vector<Erasure> erasures;
  // Of a picture.
  ImageSize size() const {
    return cuttings.empty() ? passes.back().result() : cuttings.front().window.size;
  }
};

// How a plan is made for a mask: only what moves pixels happens, the same for equal keys as to an
// image of this size; each pixel comes from one pixel, or is `fill`.
struct MaskRule {
  uint8_t fill = 0;
};

// For an image, or for its mask. Fails with `invalid` where a crop needs a larger image, or a
// result would be too large or empty.
Result<SamplePlan> plan_sample(const Steps& steps, ImageSize image, const SampleKey& key,
                               const MaskRule* mask = nullptr);

// Whether the step draws random numbers.
bool is_random(const Step& step);

}  // namespace foreload
