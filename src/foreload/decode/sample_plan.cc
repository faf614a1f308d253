// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/sample_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

namespace foreload {
namespace {

// Results beyond this many pixels are refused, as images are that declare so many.
constexpr uint64_t kMostPixels = 2 * 89'478'485;

// Half to even, as Python rounds.
int64_t rounded(double value) {
  return static_cast<int64_t>(std::nearbyint(value));
}

// A rectangle that may reach outside an image.
struct Window {
  int64_t left = 0;
  int64_t top = 0;
  ImageSize size;
};

// torchvision's RandomResizedCrop.get_params: ten tries to fit a crop of random area and shape,
// then the largest central crop whose shape is allowed. That has at least one pixel, where
// torchvision may come to none.
Window random_crop_to_resize(const step::RandomResizedCrop& step, ImageSize image,
                             StepRandom& random) {
  const double width = image.width;
  const double height = image.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = width * height * random.uniform(step.scale[0], step.scale[1]);
    const double ratio = std::exp(random.uniform(std::log(step.ratio[0]), std::log(step.ratio[1])));
    const int64_t w = rounded(std::sqrt(area * ratio));
    const int64_t h = rounded(std::sqrt(area / ratio));
    if (w <= 0 || w > image.width || h <= 0 || h > image.height) continue;
    const auto top = static_cast<int64_t>(random.below(image.height - h + 1));
    const auto left = static_cast<int64_t>(random.below(image.width - w + 1));
    return {left, top, {static_cast<uint32_t>(w), static_cast<uint32_t>(h)}};
  }
  const auto [least, most] = std::minmax(step.ratio[0], step.ratio[1]);
  ImageSize size = image;
  if (width / height < least) {
    size.height =
        static_cast<uint32_t>(std::clamp<int64_t>(rounded(width / least), 1, image.height));
  } else if (width / height > most) {
    size.width = static_cast<uint32_t>(std::clamp<int64_t>(rounded(height * most), 1, image.width));
  }
  return {(image.width - size.width) / 2, (image.height - size.height) / 2, size};
}

// torchvision's center_crop: padded to at least the crop's size first, the odd pixel on the right
// and at the bottom.
Window center_crop(ImageSize crop, ImageSize image) {
  const auto along = [](int64_t wanted, int64_t there) {
    if (wanted > there) return -((wanted - there) / 2);
    return rounded(static_cast<double>(there - wanted) / 2.0);
  };
  return {along(crop.width, image.width), along(crop.height, image.height), crop};
}

Result<ImageSize> resized_size(const step::Resize& step, ImageSize image) {
  if (step.shorter == 0) return step.size;
  const bool wide = image.width > image.height;
  const double short_side = wide ? image.height : image.width;
  const double long_side = wide ? image.width : image.height;
  double new_short = step.shorter;
  double new_long = std::trunc(new_short * long_side / short_side);
  if (step.longest && new_long > *step.longest) {
    new_short = std::trunc(*step.longest * new_short / new_long);
    new_long = *step.longest;
  }
  if (new_short < 1 || new_long > 0x7fffffff) {
    return fail(
        ErrorKind::invalid,
        fmt::format(
            "Resize would make {} x {} pixels of an image of {} x {}; leave such images out, or "
            "crop before resizing",
            wide ? new_long : new_short, wide ? new_short : new_long, image.width, image.height));
  }
  const auto shorter = static_cast<uint32_t>(new_short);
  const auto longer = static_cast<uint32_t>(new_long);
  return wide ? ImageSize{longer, shorter} : ImageSize{shorter, longer};
}

Region as_region(const Window& window) {
  return {static_cast<uint32_t>(window.left), static_cast<uint32_t>(window.top), window.size.width,
          window.size.height};
}

// Applies steps one by one to the last pass, and begins a new one where a step cannot be merged.
class Planner {
 public:
  Planner(ImageSize image, const SampleKey& key) : key_(key) { begin_pass(image); }

  Result<void> add(const step::RandomResizedCrop& step) {
    StepRandom random = next_random();
    crop(random_crop_to_resize(step, size(), random), {});
    resize(step.size, step.interpolation);
    return {};
  }
  Result<void> add(const step::Resize& step) {
    FORELOAD_TRY(const ImageSize wanted, resized_size(step, size()));
    resize(wanted, step.interpolation);
    return {};
  }
  Result<void> add(const step::CenterCrop& step) {
    crop(center_crop(step.size, size()), {});
    return {};
  }
  Result<void> add(const step::RandomCrop& step) {
    StepRandom random = next_random();
    // The padded image, in coordinates of the current one.
    const auto [left, top, right, bottom] = step.padding;
    Window padded{
        -int64_t{left}, -int64_t{top}, {size().width + left + right, size().height + top + bottom}};
    if (step.pad_if_needed && padded.size.width < step.size.width) {
      const uint32_t more = step.size.width - padded.size.width;
      padded.left -= more;
      padded.size.width += 2 * more;
    }
    if (step.pad_if_needed && padded.size.height < step.size.height) {
      const uint32_t more = step.size.height - padded.size.height;
      padded.top -= more;
      padded.size.height += 2 * more;
    }
    if (padded.size.width < step.size.width || padded.size.height < step.size.height) {
      return fail(
          ErrorKind::invalid,
          fmt::format("RandomCrop of {} x {} needs a larger image than {} x {} pixels; set "
                      "pad_if_needed, or resize first",
                      step.size.width, step.size.height, padded.size.width, padded.size.height));
    }
    if (padded.size != step.size) {
      padded.top += static_cast<int64_t>(random.below(padded.size.height - step.size.height + 1));
      padded.left += static_cast<int64_t>(random.below(padded.size.width - step.size.width + 1));
    }
    crop({padded.left, padded.top, step.size}, step.fill);
    return {};
  }
  Result<void> add(const step::RandomHorizontalFlip& step) {
    // Colors do not depend on where a pixel is, so a flip may come after them.
    if (next_random().unit() < step.p) pass().flip = !pass().flip;
    return {};
  }
  Result<void> add(const step::ColorJitter& step) {
    StepRandom random = next_random();
    JitterDraw draw;
    for (unsigned i = 0; i < 2; ++i) {
      std::swap(draw.order[i], draw.order[i + random.below(3 - i)]);
    }
    const std::array ranges{step.brightness, step.contrast, step.saturation};
    for (unsigned i = 0; i < 3; ++i) draw.factors[i] = random.uniform(ranges[i][0], ranges[i][1]);
    if (pass().jitter) begin_pass(size());
    pass().jitter = draw;
    return {};
  }
  Result<void> add(const step::Decode&) { return {}; }
  Result<void> add(const step::Normalize&) { return {}; }
  Result<void> add(const step::ToDtype&) { return {}; }
  Result<void> add(const step::ToLayout&) { return {}; }

  SamplePlan take() { return std::move(plan_); }
  ImageSize size() const { return plan_.passes.back().size; }

 private:
  Pass& pass() { return plan_.passes.back(); }
  StepRandom next_random() { return {key_, random_steps_++}; }

  void begin_pass(ImageSize image) {
    Pass pass;
    pass.crop = {0, 0, image.width, image.height};
    pass.resized = image;
    pass.size = image;
    plan_.passes.push_back(pass);
  }

  void crop(Window wanted, const std::array<uint8_t, 3>& fill) {
    if (wanted.left == 0 && wanted.top == 0 && wanted.size == size()) return;
    const bool pads = wanted.left < 0 || wanted.top < 0 ||
                      wanted.left + wanted.size.width > size().width ||
                      wanted.top + wanted.size.height > size().height;
    // Padding goes around what earlier crops left, not back to what they cut off.
    if (pass().jitter || (pads && !pass().whole())) begin_pass(size());
    Pass& into = pass();
    if (into.flip) wanted.left = int64_t{into.size.width} - wanted.left - wanted.size.width;
    if (pads) into.fill = fill;
    into.left += wanted.left;
    into.top += wanted.top;
    into.size = wanted.size;
  }

  void resize(ImageSize wanted, Interpolation interpolation) {
    if (wanted == size()) return;
    // Weights are not symmetric to the last bit, so a flip before a resize stays before it.
    if (pass().jitter || pass().flip || pass().resizes() || !pass().inside()) begin_pass(size());
    Pass& into = pass();
    into.crop = as_region({into.crop.x + into.left, into.crop.y + into.top, into.size});
    into.resized = wanted;
    into.interpolation = interpolation;
    into.left = 0;
    into.top = 0;
    into.size = wanted;
  }

  SampleKey key_;
  uint32_t random_steps_ = 0;
  SamplePlan plan_;
};

}  // namespace

bool Pass::inside() const {
  return left >= 0 && top >= 0 && left + size.width <= resized.width &&
         top + size.height <= resized.height;
}

Result<SamplePlan> plan_sample(const std::vector<Step>& steps, ImageSize image,
                               const SampleKey& key) {
  Planner planner(image, key);
  for (const Step& step : steps) {
    FORELOAD_CHECK(std::visit([&planner](const auto& kind) { return planner.add(kind); }, step));
  }
  SamplePlan plan = planner.take();
  for (const Pass& pass : plan.passes) {
    if (uint64_t{pass.size.width} * pass.size.height > kMostPixels) {
      return fail(
          ErrorKind::invalid,
          fmt::format("the transform would make {} x {} pixels of an image of {} x {}, and at "
                      "most {} pixels are allowed; leave such images out, or crop them",
                      pass.size.width, pass.size.height, image.width, image.height, kMostPixels));
    }
  }
  return plan;
}

bool is_random(const Step& step) {
  return std::holds_alternative<step::RandomResizedCrop>(step) ||
         std::holds_alternative<step::RandomCrop>(step) ||
         std::holds_alternative<step::RandomHorizontalFlip>(step) ||
         std::holds_alternative<step::ColorJitter>(step);
}

}  // namespace foreload
