// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/step_draws.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace foreload {

int64_t rounded_as_python(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

// torchvision's RandomResizedCrop.get_params: ten tries to fit a crop of random area and shape,
// then the largest central crop whose shape is allowed. That has at least one pixel, where
// torchvision may come to none.
Window draw_crop(const step::RandomResizedCrop& step, ImageSize image, StepRandom& random) {
  const double width = image.width;
  const double height = image.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = width * height * random.uniform(step.scale[0], step.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(step.ratio[0]), std::log(step.ratio[1])));
    const int64_t w = rounded_as_python(std::sqrt(area * ratio));
    const int64_t h = rounded_as_python(std::sqrt(area / ratio));
    if (w <= 0 || w > image.width || h <= 0 || h > image.height) continue;
    const auto top = static_cast<int64_t>(random.below(image.height - h + 1));
    const auto left = static_cast<int64_t>(random.below(image.width - w + 1));
    return {left, top, {static_cast<uint32_t>(w), static_cast<uint32_t>(h)}};
  }
  const auto [least, most] = std::minmax(step.ratio[0], step.ratio[1]);
  ImageSize size = image;
  if (width / height < least) {
    size.height = static_cast<uint32_t>(
        std::clamp<int64_t>(rounded_as_python(width / least), 1, image.height));
  } else if (width / height > most) {
    size.width = static_cast<uint32_t>(
        std::clamp<int64_t>(rounded_as_python(height * most), 1, image.width));
  }
  return {(image.width - size.width) / 2, (image.height - size.height) / 2, size};
}

JitterDraw draw_jitter(const step::ColorJitter& step, StepRandom& random) {
  JitterDraw draw;
  draw.hue = step.hue != std::array<double, 2>{0, 0};
  const unsigned count = draw.hue ? 4 : 3;
  for (unsigned i = 0; i + 1 < count; ++i) {
    std::swap(draw.order[i], draw.order[i + random.below(count - i)]);
  }
  const std::array ranges{step.brightness, step.contrast, step.saturation, step.hue};
  for (unsigned i = 0; i < count; ++i) draw.factors[i] = random.uniform(ranges[i][0], ranges[i][1]);
  return draw;
}

AffineDraw draw_affine(const step::RandomAffine& step, ImageSize image, StepRandom& random) {
  AffineDraw draw;
  draw.angle = random.uniform(step.degrees[0], step.degrees[1]);
  if (step.translate) {
    const Point most{(*step.translate)[0] * image.width, (*step.translate)[1] * image.height};
    for (size_t i = 0; i < 2; ++i) {
      draw.translate[i] = static_cast<double>(rounded_as_python(random.uniform(-most[i], most[i])));
    }
  }
  if (step.scale) draw.scale = random.uniform((*step.scale)[0], (*step.scale)[1]);
  if (step.shear) {
    draw.shear[0] = random.uniform((*step.shear)[0], (*step.shear)[1]);
    draw.shear[1] = random.uniform((*step.shear)[2], (*step.shear)[3]);
  }
  return draw;
}

std::array<double, 8> draw_perspective(const step::RandomPerspective& step, ImageSize image,
                                       StepRandom& random) {
  const auto bound = [&step](uint32_t side) {
    return static_cast<uint64_t>(step.distortion_scale * (side / 2)) + 1;
  };
  const uint64_t x_bound = bound(image.width);
  const uint64_t y_bound = bound(image.height);
  const auto near = [&random](uint64_t most) { return static_cast<double>(random.below(most)); };
  const auto far = [&random](uint32_t side, uint64_t most) {
    return static_cast<double>(side - most + random.below(most));
  };
  const double right = image.width - 1.0;
  const double bottom = image.height - 1.0;
  const std::array<Point, 4> start{{{0, 0}, {right, 0}, {right, bottom}, {0, bottom}}};
  std::array<Point, 4> end{};
  end[0][0] = near(x_bound);
  end[0][1] = near(y_bound);
  end[1][0] = far(image.width, x_bound);
  end[1][1] = near(y_bound);
  end[2][0] = far(image.width, x_bound);
  end[2][1] = far(image.height, y_bound);
  end[3][0] = near(x_bound);
  end[3][1] = far(image.height, y_bound);
  return perspective_coefficients(start, end);
}

std::optional<Region> draw_box(const step::RandomErasing& step, ImageSize image,
                               StepRandom& random) {
  const double area = static_cast<double>(image.width) * image.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double erased = area * random.uniform(step.scale[0], step.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(step.ratio[0]), std::log(step.ratio[1])));
    const int64_t height = rounded_as_python(std::sqrt(erased * ratio));
    const int64_t width = rounded_as_python(std::sqrt(erased / ratio));
    if (height >= image.height || width >= image.width) continue;
    const auto top = static_cast<uint32_t>(random.below(image.height - height + 1));
    const auto left = static_cast<uint32_t>(random.below(image.width - width + 1));
    return Region{left, top, static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
  }
  return std::nullopt;
}

size_t draw_choice(const std::vector<double>& weights, StepRandom& random) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double at = random.unit() * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (at < weights[i]) return i;
    at -= weights[i];
  }
  // Rounding left something over.
  const auto last = std::find_if(weights.rbegin(), weights.rend(), [](double w) { return w > 0; });
  return static_cast<size_t>(weights.rend() - last) - 1;
}

std::vector<size_t> draw_order(size_t count, StepRandom& random) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = 0; i + 1 < count; ++i) std::swap(order[i], order[i + random.below(count - i)]);
  return order;
}

std::vector<AugmentDraw> draw_augmentations(const step::Augment& step, ImageSize image,
                                            StepRandom& random) {
  std::vector<AugmentDraw> draws;
  for (uint32_t time = 0; time < step.times; ++time) {
    for (const auto& operation : step.policies[random.below(step.policies.size())]) {
      const bool happens = random.unit() < operation.p;
      const size_t count = std::max<size_t>(operation.magnitudes.size(), 1);
      const size_t which = random.below(count);
      const bool negative = random.unit() < 0.5 && operation.either_sign;
      if (!happens) continue;
      double magnitude = operation.magnitudes.empty() ? 0 : operation.magnitudes[which];
      if (operation.bins > 0) {
        const bool along_x = operation.kind == AugmentKind::translate_x;
        const uint32_t side = along_x ? image.width : image.height;
        magnitude = linspace_from_zero(operation.share * side, operation.bins,
                                       static_cast<unsigned>(magnitude));
      }
      draws.push_back({operation.kind, negative ? -magnitude : magnitude});
    }
  }
  return draws;
}

}  // namespace foreload
