// SPDX-License-Identifier: Apache-2.0
//
// What steps draw: torchvision's distributions, from the random numbers of a sample.
//
// Pure functions of the numbers that they take from `random`.
#pragma once

#include <vector>

#include "foreload/decode/picture_ops.h"
#include "foreload/decode/sample_plan.h"
#include "foreload/decode/sample_random.h"
#include "foreload/decode/steps.h"
#include "foreload/decode/warp_math.h"

namespace foreload {

// Half to even, as Python rounds.
int64_t rounded_as_python(double value);

// Where a crop of random area and shape lies.
Window draw_crop(const step::RandomResizedCrop& step, ImageSize image, StepRandom& random);
JitterDraw draw_jitter(const step::ColorJitter& step, StepRandom& random);
AffineDraw draw_affine(const step::RandomAffine& step, ImageSize image, StepRandom& random);
// The coefficients of perspective_coefficients().
std::array<double, 8> draw_perspective(const step::RandomPerspective& step, ImageSize image,
                                       StepRandom& random);
// Nothing where no box fits in ten tries.
std::optional<Region> draw_box(const step::RandomErasing& step, ImageSize image,
                               StepRandom& random);
// Which of several choices, by weight. REQUIRES: weights of a sum above 0.
size_t draw_choice(const std::vector<double>& weights, StepRandom& random);
// 0 to count - 1 in random order.
std::vector<size_t> draw_order(size_t count, StepRandom& random);

// An operation that was drawn, with its magnitude.
struct AugmentDraw {
  AugmentKind kind = AugmentKind::identity;
  double magnitude = 0;
};
// `image` is the size of the image before the first operation.
std::vector<AugmentDraw> draw_augmentations(const step::Augment& step, ImageSize image,
                                            StepRandom& random);

}  // namespace foreload
