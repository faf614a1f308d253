// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/sample_plan.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include "foreload/decode/step_draws.h"

namespace foreload {
namespace {

// Results beyond this many pixels are refused, as images are that declare so many.
constexpr uint64_t kMostPixels = 2 * 89'478'485;

// torchvision's center_crop: padded to at least the crop's size first, the odd pixel on the right
// and at the bottom.
Window center_crop(ImageSize crop, ImageSize image) {
  const auto along = [](int64_t wanted, int64_t there) {
    if (wanted > there) return -((wanted - there) / 2);
    return rounded_as_python(static_cast<double>(there - wanted) / 2.0);
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

// The padding of a crop that may need more than was asked for, as torchvision's RandomCrop has it.
std::array<uint32_t, 4> padding_for(const step::RandomCrop& step, ImageSize image) {
  std::array<uint32_t, 4> padding = step.padding;
  auto& [left, top, right, bottom] = padding;
  const uint32_t width = image.width + left + right;
  const uint32_t height = image.height + top + bottom;
  if (step.pad_if_needed && width < step.size.width) {
    left += step.size.width - width;
    right += step.size.width - width;
  }
  if (step.pad_if_needed && height < step.size.height) {
    top += step.size.height - height;
    bottom += step.size.height - height;
  }
  return padding;
}

std::array<double, 8> widened(const AffineMatrix& matrix) {
  std::array<double, 8> wide{};
  std::ranges::copy(matrix, wide.begin());
  return wide;
}

// Of those that are made, also on the way.
ImageSize largest_picture(const Pass& pass) {
  ImageSize largest = pass.size;
  ImageSize size = pass.size;
  const auto pixels = [](ImageSize of) { return uint64_t{of.width} * of.height; };
  for (const PictureOp& op : pass.ops) {
    size = size_after(op, size);
    if (pixels(size) > pixels(largest)) largest = size;
  }
  return largest;
}

// How many streams of random numbers the steps have.
uint32_t random_steps_in(const Steps& steps) {
  uint32_t count = 0;
  for (const Step& step : steps) {
    if (is_random(step)) ++count;
    if (const auto* some = std::get_if<step::RandomApply>(&step)) {
      count += random_steps_in(some->steps);
    } else if (const auto* choice = std::get_if<step::RandomChoice>(&step)) {
      for (const Steps& inner : choice->choices) count += random_steps_in(inner);
    } else if (const auto* order = std::get_if<step::RandomOrder>(&step)) {
      for (const Steps& inner : order->parts) count += random_steps_in(inner);
    }
  }
  return count;
}

// Merges what moves and changes pixels into the last pass, and begins a new one where it cannot.
class MergedPasses {
 public:
  MergedPasses(ImageSize image, const MaskRule* mask) : mask_(mask) { begin_pass(image); }

  // After all that was added.
  ImageSize size() const { return passes_.back().result(); }
  bool masks() const { return mask_ != nullptr; }
  std::vector<Pass> take() { return std::move(passes_); }

  void rotate(double degrees, bool expand, const std::optional<Point>& center,
              Interpolation interpolation, const step::Fill& fill) {
    const Rotation turn = rotation(size(), degrees, expand, center);
    if (turn.quarters) {
      if (*turn.quarters != 0) pass().ops.emplace_back(QuarterTurns{*turn.quarters});
      return;
    }
    warp({.matrix = widened(turn.matrix),
          .interpolation = interpolation,
          .size = turn.size,
          .fill = fill});
  }
  // `step` says how pixels are found and what lies outside.
  template <class AffineStep>
  void affine(const AffineDraw& draw, const std::optional<Point>& center, const AffineStep& step) {
    const Point middle = center.value_or(Point{size().width * 0.5, size().height * 0.5});
    warp({.matrix = widened(inverse_affine(draw, middle, step.first_generation)),
          .interpolation = step.interpolation,
          .size = size(),
          .fill = step.fill});
  }
  void warp(Warp op) {
    if (mask_) {
      op.interpolation = Interpolation::nearest;
      op.fill.fill(mask_->fill);
    }
    pass().ops.emplace_back(op);
  }
  // What changes values and moves nothing.
  void color(PictureOp op) {
    if (!mask_) pass().ops.push_back(std::move(op));
  }

  void flip(bool Pass::* direction) {
    // Most colors do not depend on where a pixel is, so that a flip may come before them.
    if (!std::ranges::all_of(pass().ops, commutes_with_flips)) begin_pass(size());
    pass().*direction = !(pass().*direction);
  }

  void pad(const std::array<uint32_t, 4>& padding, PaddingMode mode, const step::Fill& fill) {
    const auto [left, top, right, bottom] = padding;
    if (mode == PaddingMode::constant) {
      crop({-int64_t{left},
            -int64_t{top},
            {size().width + left + right, size().height + top + bottom}},
           fill);
    } else if (padding != std::array<uint32_t, 4>{}) {
      pass().ops.emplace_back(MirrorPad{padding, mode});
    }
  }

  void crop(Window wanted, const step::Fill& fill) {
    if (wanted.left == 0 && wanted.top == 0 && wanted.size == size()) return;
    const bool pads = wanted.left < 0 || wanted.top < 0 ||
                      wanted.left + wanted.size.width > size().width ||
                      wanted.top + wanted.size.height > size().height;
    // Padding goes around what earlier crops left, not back to what they cut off.
    if (!pass().ops.empty() || (pads && !pass().whole())) begin_pass(size());
    Pass& into = pass();
    if (into.flip) wanted.left = int64_t{into.size.width} - wanted.left - wanted.size.width;
    if (into.flip_rows) wanted.top = int64_t{into.size.height} - wanted.top - wanted.size.height;
    if (pads) into.fill = fill;
    if (pads && mask_) into.fill.fill(mask_->fill);
    into.left += wanted.left;
    into.top += wanted.top;
    into.size = wanted.size;
  }

  void resize(ImageSize wanted, Interpolation interpolation, ResizeRule rule) {
    if (wanted == size()) return;
    // Weights are not symmetric to the last bit, so a flip before a resize stays before it.
    if (!pass().ops.empty() || pass().flip || pass().flip_rows || pass().resizes() ||
        !pass().inside()) {
      begin_pass(size());
    }
    Pass& into = pass();
    into.crop = as_region({into.crop.x + into.left, into.crop.y + into.top, into.size});
    into.resized = wanted;
    into.interpolation = mask_ ? Interpolation::nearest : interpolation;
    into.rule = mask_ ? ResizeRule::pillow : rule;
    into.left = 0;
    into.top = 0;
    into.size = wanted;
  }

 private:
  Pass& pass() { return passes_.back(); }
  void begin_pass(ImageSize image) {
    Pass pass;
    pass.crop = {0, 0, image.width, image.height};
    pass.resized = image;
    pass.size = image;
    passes_.push_back(std::move(pass));
  }

  const MaskRule* mask_;  // null: for an image
  std::vector<Pass> passes_;
};

// Draws what steps leave open, one by one, and adds what they come to.
class Planner {
 public:
  Planner(ImageSize image, const SampleKey& key, const MaskRule* mask)
      : key_(key), passes_(image, mask) {}

  Result<void> add(const Steps& steps) {
    for (const Step& step : steps) {
      FORELOAD_CHECK(std::visit([this](const auto& kind) { return add(kind); }, step));
    }
    return {};
  }

  SamplePlan take() {
    plan_.passes = passes_.take();
    return std::move(plan_);
  }

 private:
  Result<void> add(const step::RandomResizedCrop& step) {
    StepRandom random = next_random();
    passes_.crop(draw_crop(step, passes_.size(), random), {});
    passes_.resize(step.size, step.interpolation, step.rule);
    return {};
  }
  Result<void> add(const step::Resize& step) {
    FORELOAD_TRY(const ImageSize wanted, resized_size(step, passes_.size()));
    passes_.resize(wanted, step.interpolation, step.rule);
    return {};
  }
  Result<void> add(const step::CenterCrop& step) {
    passes_.crop(center_crop(step.size, passes_.size()), {});
    return {};
  }
  Result<void> add(const step::RandomCrop& step) {
    StepRandom random = next_random();
    const auto [width, height] = passes_.size();
    const auto padding = padding_for(step, {width, height});
    const auto [left, top, right, bottom] = padding;
    // The padded image, in coordinates of the current one.
    Window padded{-int64_t{left}, -int64_t{top}, {width + left + right, height + top + bottom}};
    if (padded.size.width < step.size.width || padded.size.height < step.size.height) {
      return fail(
          ErrorKind::invalid,
          fmt::format("RandomCrop of {} x {} needs a larger image than {} x {} pixels; set "
                      "pad_if_needed, or resize first",
                      step.size.width, step.size.height, padded.size.width, padded.size.height));
    }
    if (step.mode != PaddingMode::constant) {
      passes_.pad(padding, step.mode, step.fill);
      padded.left = 0;
      padded.top = 0;
    }
    if (padded.size != step.size) {
      padded.top += static_cast<int64_t>(random.below(padded.size.height - step.size.height + 1));
      padded.left += static_cast<int64_t>(random.below(padded.size.width - step.size.width + 1));
    }
    passes_.crop({padded.left, padded.top, step.size}, step.fill);
    return {};
  }
  Result<void> add(const step::Pad& step) {
    passes_.pad(step.padding, step.mode, step.fill);
    return {};
  }
  Result<void> add(const step::FiveCrop& step) {
    const auto [width, height] = passes_.size();
    if (width < step.size.width || height < step.size.height) {
      return fail(ErrorKind::invalid,
                  fmt::format("FiveCrop of {} x {} needs a larger image than {} x {} pixels; "
                              "resize first",
                              step.size.width, step.size.height, width, height));
    }
    const int64_t right = width - step.size.width;
    const int64_t bottom = height - step.size.height;
    const std::array<Window, 5> windows{{{0, 0, step.size},
                                         {right, 0, step.size},
                                         {0, bottom, step.size},
                                         {right, bottom, step.size},
                                         center_crop(step.size, passes_.size())}};
    for (const Window& window : windows) plan_.cuttings.push_back({window});
    if (!step.ten) return {};
    // Windows of the flipped picture.
    for (Window window : windows) {
      Cutting cutting{window, !step.vertical_flip, step.vertical_flip};
      if (cutting.flip) cutting.window.left = int64_t{width} - window.left - step.size.width;
      if (cutting.flip_rows) cutting.window.top = int64_t{height} - window.top - step.size.height;
      plan_.cuttings.push_back(cutting);
    }
    return {};
  }
  Result<void> add(const step::RandomHorizontalFlip& step) {
    if (next_random().unit() < step.p) passes_.flip(&Pass::flip);
    return {};
  }
  Result<void> add(const step::RandomVerticalFlip& step) {
    if (next_random().unit() < step.p) passes_.flip(&Pass::flip_rows);
    return {};
  }
  Result<void> add(const step::RandomRotation& step) {
    StepRandom random = next_random();
    passes_.rotate(random.uniform(step.degrees[0], step.degrees[1]), step.expand, step.center,
                   step.interpolation, step.fill);
    return {};
  }
  Result<void> add(const step::RandomAffine& step) {
    StepRandom random = next_random();
    passes_.affine(draw_affine(step, passes_.size(), random), step.center, step);
    return {};
  }
  Result<void> add(const step::RandomPerspective& step) {
    StepRandom random = next_random();
    if (random.unit() >= step.p) return {};
    passes_.warp({.matrix = draw_perspective(step, passes_.size(), random),
                  .perspective = true,
                  .interpolation = step.interpolation,
                  .size = passes_.size(),
                  .fill = step.fill});
    return {};
  }
  Result<void> add(const step::ColorJitter& step) {
    StepRandom random = next_random();
    passes_.color(draw_jitter(step, random));
    return {};
  }
  Result<void> add(const step::Grayscale& step) {
    passes_.color(Grey{step.channels});
    channels_ = step.channels;
    return {};
  }
  Result<void> add(const step::RandomGrayscale& step) {
    if (next_random().unit() < step.p && channels_ == 3) passes_.color(Grey{3});
    return {};
  }
  Result<void> add(const step::ColorStep auto& step) {
    if (next_random().unit() < step.p) passes_.color(step.op());
    return {};
  }
  Result<void> add(const step::GaussianBlur& step) {
    StepRandom random = next_random();
    passes_.color(Blur{step.kernel, random.uniform(step.sigma[0], step.sigma[1])});
    return {};
  }
  Result<void> add(const step::RandomErasing& step) {
    StepRandom random = next_random();
    if (random.unit() >= step.p || passes_.masks()) return {};
    const auto box = draw_box(step, passes_.size(), random);
    if (!box || box->width == 0 || box->height == 0) return {};
    if (!numbers_) {
      EraseBox op{*box};
      for (size_t i = 0; i < 3; ++i) op.value[i] = static_cast<uint8_t>(step.value[i]);
      passes_.color(op);
      return {};
    }
    Erasure erasure{*box};
    for (size_t i = 0; i < 3; ++i) erasure.value[i] = static_cast<float>(step.value[i]);
    if (step.noise) erasure.noise = random;
    plan_.erasures.push_back(erasure);
    return {};
  }
  Result<void> add(const step::Augment& step) {
    StepRandom random = next_random();
    for (const AugmentDraw& draw : draw_augmentations(step, passes_.size(), random))
      augment(draw, step);
    return {};
  }
  Result<void> add(const step::RandomApply& step) {
    const bool happens = next_random().unit() < step.p;
    const uint32_t after = random_steps_ + random_steps_in(step.steps);
    if (happens) FORELOAD_CHECK(add(step.steps));
    random_steps_ = after;
    return {};
  }
  Result<void> add(const step::RandomChoice& step) {
    StepRandom random = next_random();
    const size_t chosen = draw_choice(step.weights, random);
    return add_some(step.choices, {chosen});
  }
  Result<void> add(const step::RandomOrder& step) {
    StepRandom random = next_random();
    return add_some(step.parts, draw_order(step.parts.size(), random));
  }
  Result<void> add(const step::Decode& step) {
    channels_ = channels_of(step.mode);
    return {};
  }
  Result<void> add(const step::Normalize&) {
    numbers_ = true;
    return {};
  }
  Result<void> add(const step::ToDtype&) {
    numbers_ = true;
    return {};
  }
  Result<void> add(const step::ToLayout&) { return {}; }

  // Those of the chains that `which` names, in its order. A chain's random numbers do not depend
  // on which others there were before.
  Result<void> add_some(const std::vector<Steps>& chains, const std::vector<size_t>& which) {
    std::vector<uint32_t> first{random_steps_};
    for (const Steps& chain : chains) first.push_back(first.back() + random_steps_in(chain));
    for (const size_t chain : which) {
      random_steps_ = first[chain];
      FORELOAD_CHECK(add(chains[chain]));
    }
    random_steps_ = first.back();
    return {};
  }

  void augment(const AugmentDraw& draw, const step::Augment& step) {
    const auto shear = [&](double x, double y) {
      passes_.affine({.shear = {x, y}}, Point{0, 0}, step);
    };
    const auto shift = [&](double x, double y) {
      passes_.affine({.translate = {std::trunc(x), std::trunc(y)}}, std::nullopt, step);
    };
    const auto jitter = [&](size_t which) {
      JitterDraw jittered;
      jittered.factors[which] = 1.0 + draw.magnitude;
      passes_.color(jittered);
    };
    const double degrees = std::atan(draw.magnitude) * (180.0 / std::numbers::pi);
    switch (draw.kind) {
      case AugmentKind::identity:
        return;
      case AugmentKind::shear_x:
        return shear(degrees, 0);
      case AugmentKind::shear_y:
        return shear(0, degrees);
      case AugmentKind::translate_x:
        return shift(draw.magnitude, 0);
      case AugmentKind::translate_y:
        return shift(0, draw.magnitude);
      case AugmentKind::rotate:
        return passes_.rotate(draw.magnitude, false, {}, step.interpolation, step.fill);
      case AugmentKind::brightness:
        return jitter(0);
      case AugmentKind::contrast:
        return jitter(1);
      case AugmentKind::color:
        return jitter(2);
      case AugmentKind::sharpness:
        return passes_.color(Sharpen{1.0 + draw.magnitude});
      case AugmentKind::posterize:
        return passes_.color(ColorTable::posterized(static_cast<unsigned>(draw.magnitude)));
      case AugmentKind::solarize:
        return passes_.color(ColorTable::solarized(draw.magnitude));
      case AugmentKind::auto_contrast:
        return passes_.color(AutoContrast{});
      case AugmentKind::equalize:
        return passes_.color(Equalize{});
      case AugmentKind::invert:
        return passes_.color(ColorTable::inverted());
    }
  }

  StepRandom next_random() { return {key_, random_steps_++}; }

  SampleKey key_;
  uint32_t random_steps_ = 0;
  uint32_t channels_ = 3;
  bool numbers_ = false;  // Normalize or ToDtype was there
  MergedPasses passes_;
  SamplePlan plan_;  // but for its passes
};

}  // namespace

bool Pass::inside() const {
  return left >= 0 && top >= 0 && left + size.width <= resized.width &&
         top + size.height <= resized.height;
}

ImageSize Pass::result() const {
  ImageSize made = size;
  for (const PictureOp& op : ops) made = size_after(op, made);
  return made;
}

Result<SamplePlan> plan_sample(const Steps& steps, ImageSize image, const SampleKey& key,
                               const MaskRule* mask) {
  Planner planner(image, key, mask);
  FORELOAD_CHECK(planner.add(steps));
  SamplePlan plan = planner.take();
  for (const Pass& pass : plan.passes) {
    const ImageSize size = largest_picture(pass);
    if (uint64_t{size.width} * size.height > kMostPixels) {
      return fail(
          ErrorKind::invalid,
          fmt::format("the transform would make {} x {} pixels of an image of {} x {}, and at "
                      "most {} pixels are allowed; leave such images out, or crop them",
                      size.width, size.height, image.width, image.height, kMostPixels));
    }
  }
  return plan;
}

bool is_random(const Step& step) {
  return name_of(step).starts_with("Random") || std::holds_alternative<step::ColorJitter>(step) ||
         std::holds_alternative<step::GaussianBlur>(step) ||
         std::holds_alternative<step::Augment>(step);
}

}  // namespace foreload
