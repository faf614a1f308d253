// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/chain.h"

#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace foreload {
namespace {

// The step that is looked at, and what its values alone can have wrong.
struct StepInChain {
  static constexpr uint32_t kLongestSide = 1 << 20;

  tl::unexpected<Error> flaw(std::string_view what) const {
    return fail(ErrorKind::invalid, fmt::format("step {} ({}): {}", number, name, what));
  }
  Result<void> check_probability(double p) const {
    if (p >= 0 && p <= 1) return {};
    return flaw("p must be a probability from 0 to 1");
  }
  Result<void> check_range(const std::array<double, 2>& range, std::string_view what) const {
    if (std::isfinite(range[0]) && std::isfinite(range[1]) && range[0] <= range[1]) return {};
    return flaw(fmt::format("{} must be two finite numbers, the smaller one first", what));
  }
  Result<void> check_operation(const step::Augment::Operation& operation) const {
    FORELOAD_CHECK(check_probability(operation.p));
    if (operation.bins == 1) return flaw("bins must be 2 or more");
    for (const double magnitude : operation.magnitudes) {
      const bool fits = operation.kind == AugmentKind::posterize ? magnitude >= 1 && magnitude <= 8
                        : operation.bins > 0 ? magnitude >= 0 && magnitude < operation.bins
                                             : std::isfinite(magnitude);
      if (!fits) {
        return flaw(fmt::format("{} has no magnitude {}", name_of(operation.kind), magnitude));
      }
    }
    if (operation.kind == AugmentKind::posterize && operation.magnitudes.empty())
      return flaw("Posterize needs a number of bits");
    return {};
  }
  Result<void> check_size(ImageSize size) const {
    if (size.width == 0 || size.height == 0) return flaw("size must be at least 1 x 1 pixel");
    if (size.width > kLongestSide || size.height > kLongestSide) {
      return flaw(fmt::format("size {} x {} is too large; give at most {} pixels a side",
                              size.width, size.height, kLongestSide));
    }
    return {};
  }

  size_t number = 0;
  std::string_view name;
};

// What torchvision divides by to come to [0, 1]; floats are taken to be there.
float largest_value(PixelType type) {
  switch (type) {
    case PixelType::uint8:
      return 255;
    case PixelType::uint16:
      return 65535;
    case PixelType::int16:
      return 32767;
    case PixelType::int32:
      return 2147483647.0f;
    default:
      return 1;
  }
}

// Walks over a chain, remembering what was seen.
class ChainCheck {
 public:
  // Masks are not touched by steps that change colors.
  explicit ChainCheck(bool mask) : mask_(mask) {}

  Result<void> add_all(const Steps& steps) {
    for (const Step& step : steps) {
      if (!nested_) ++here_.number;
      here_.name = name_of(step);
      FORELOAD_CHECK(std::visit([this](const auto& kind) { return add(kind); }, step));
    }
    return {};
  }
  const ChainResult& result() const { return result_; }

 private:
  Result<void> add(const step::Decode& step) {
    if (here_.number > 1 || nested_) return here_.flaw("must be the first step");
    if (step.type == PixelType::bfloat16) return here_.flaw("no file holds bfloat16; use float32");
    result_.form.channels = channels_of(step.mode);
    result_.form.type = step.type;
    result_.math.divisor = largest_value(step.type);
    result_.numbers = step.numbers();
    decoded_ = step.type;
    return {};
  }
  Result<void> add(const step::RandomResizedCrop& step) {
    FORELOAD_CHECK(check_image_step());
    FORELOAD_CHECK(here_.check_size(step.size));
    if (!(step.scale[0] > 0 && step.scale[0] <= step.scale[1]) || !std::isfinite(step.scale[1])) {
      return here_.flaw("scale must be two positive shares of the area, the smaller one first");
    }
    if (!(step.ratio[0] > 0 && step.ratio[0] <= step.ratio[1]) || !std::isfinite(step.ratio[1])) {
      return here_.flaw(
          "ratio must be two positive ratios of width to height, the smaller one first");
    }
    result_.form.size = step.size;
    return {};
  }
  Result<void> add(const step::Resize& step) {
    FORELOAD_CHECK(check_image_step());
    if (step.shorter == 0) {
      FORELOAD_CHECK(here_.check_size(step.size));
      if (step.longest) return here_.flaw("max_size needs a size of one number, the shorter side");
      result_.form.size = step.size;
      return {};
    }
    if (step.size != ImageSize{})
      return here_.flaw(
          "width, height and shorter side are all given; give both sides, or the shorter one");
    if (step.longest && *step.longest <= step.shorter) {
      return here_.flaw(fmt::format("max_size {} must be larger than the shorter side, {}",
                                    *step.longest, step.shorter));
    }
    FORELOAD_CHECK(here_.check_size({step.shorter, step.shorter}));
    result_.form.size = {};
    return {};
  }
  Result<void> add(const step::CenterCrop& step) {
    FORELOAD_CHECK(check_image_step());
    FORELOAD_CHECK(here_.check_size(step.size));
    result_.form.size = step.size;
    return {};
  }
  Result<void> add(const step::RandomCrop& step) {
    FORELOAD_CHECK(check_image_step());
    FORELOAD_CHECK(here_.check_size(step.size));
    FORELOAD_CHECK(check_padding(step.padding, step.mode));
    result_.form.size = step.size;
    return {};
  }
  Result<void> add(const step::Pad& step) {
    FORELOAD_CHECK(check_image_step());
    FORELOAD_CHECK(check_padding(step.padding, step.mode));
    const auto [left, top, right, bottom] = step.padding;
    if (result_.form.fixed()) {
      result_.form.size.width += left + right;
      result_.form.size.height += top + bottom;
    }
    return {};
  }
  Result<void> add(const step::FiveCrop& step) {
    FORELOAD_CHECK(check_picture_step());
    FORELOAD_CHECK(here_.check_size(step.size));
    if (nested_)
      return here_.flaw("gives several pictures; use it outside of RandomApply and the like");
    result_.form.size = step.size;
    result_.form.pictures = step.ten ? 10 : 5;
    return {};
  }
  Result<void> add(const step::RandomHorizontalFlip& step) {
    FORELOAD_CHECK(check_image_step());
    return here_.check_probability(step.p);
  }
  Result<void> add(const step::RandomVerticalFlip& step) {
    FORELOAD_CHECK(check_image_step());
    return here_.check_probability(step.p);
  }
  Result<void> add(const step::RandomRotation& step) {
    FORELOAD_CHECK(check_picture_step());
    FORELOAD_CHECK(here_.check_range(step.degrees, "degrees"));
    if (step.expand) result_.form.size = {};
    return {};
  }
  Result<void> add(const step::RandomAffine& step) {
    FORELOAD_CHECK(check_picture_step());
    FORELOAD_CHECK(here_.check_range(step.degrees, "degrees"));
    if (step.translate) {
      for (const double share : *step.translate) {
        if (!(share >= 0 && share <= 1)) return here_.flaw("translate must be shares from 0 to 1");
      }
    }
    if (step.scale) {
      FORELOAD_CHECK(here_.check_range(*step.scale, "scale"));
      if ((*step.scale)[0] <= 0) return here_.flaw("scale must be above 0");
    }
    if (step.shear) {
      const auto [x_low, x_high, y_low, y_high] = *step.shear;
      FORELOAD_CHECK(here_.check_range({x_low, x_high}, "shear"));
      FORELOAD_CHECK(here_.check_range({y_low, y_high}, "shear"));
    }
    return {};
  }
  Result<void> add(const step::RandomPerspective& step) {
    FORELOAD_CHECK(check_picture_step());
    if (!(step.distortion_scale >= 0 && step.distortion_scale <= 1))
      return here_.flaw("distortion_scale must be a number from 0 to 1");
    return here_.check_probability(step.p);
  }
  Result<void> add(const step::ColorJitter& step) {
    FORELOAD_CHECK(check_color_step());
    for (const auto& [low, high] : {step.brightness, step.contrast, step.saturation}) {
      if (!(low >= 0 && low <= high) || !std::isfinite(high)) {
        return here_.flaw("each range must be two factors not below 0, the smaller one first");
      }
    }
    if (!(step.hue[0] >= -0.5 && step.hue[0] <= step.hue[1] && step.hue[1] <= 0.5))
      return here_.flaw("hue must be two numbers from -0.5 to 0.5, the smaller one first");
    return {};
  }
  Result<void> add(const step::Grayscale& step) {
    FORELOAD_CHECK(check_color_step());
    if (step.channels != 1 && step.channels != 3)
      return here_.flaw("num_output_channels must be 1 or 3");
    if (nested_ && step.channels != result_.form.channels)
      return here_.flaw("must not change the number of channels here; give num_output_channels=3");
    if (!mask_) result_.form.channels = step.channels;
    return {};
  }
  Result<void> add(const step::RandomGrayscale& step) { return check_random_color(step.p); }
  Result<void> add(const step::ColorStep auto& step) {
    if (const std::string_view what = step.flaw(); !what.empty()) return here_.flaw(what);
    return check_random_color(step.p);
  }
  Result<void> add(const step::GaussianBlur& step) {
    FORELOAD_CHECK(check_color_step());
    for (const uint32_t side : step.kernel) {
      if (side % 2 == 0 || side > 999)
        return here_.flaw("kernel_size must be odd numbers below 1000");
    }
    FORELOAD_CHECK(here_.check_range(step.sigma, "sigma"));
    if (step.sigma[0] <= 0) return here_.flaw("sigma must be above 0");
    return {};
  }
  Result<void> add(const step::RandomErasing& step) {
    if (mask_) return {};
    FORELOAD_CHECK(here_.check_probability(step.p));
    FORELOAD_CHECK(here_.check_range(step.scale, "scale"));
    if (step.scale[0] < 0 || step.scale[1] > 1)
      return here_.flaw("scale must be shares from 0 to 1");
    FORELOAD_CHECK(here_.check_range(step.ratio, "ratio"));
    if (step.ratio[0] <= 0) return here_.flaw("ratio must be above 0");
    if (result_.form.pictures > 1) return here_.flaw("takes one picture; leave FiveCrop out");
    if (!normalized_ && !typed_) {
      FORELOAD_CHECK(check_color_step());
      if (step.noise) return here_.flaw("noise needs floats; put it after Normalize or ToDtype");
      for (const double value : step.value) {
        if (!(value >= 0 && value <= 255))
          return here_.flaw("value must be from 0 to 255 in front of Normalize and ToDtype");
      }
      return {};
    }
    if (is_integer(result_.form.type) || result_.form.type == PixelType::float64 ||
        result_.form.channels == 4)
      return here_.flaw("works on 8-bit images, or on floats of 32 or 16 bits without alpha");
    return {};
  }
  Result<void> add(const step::Augment& step) {
    FORELOAD_CHECK(check_picture_step());
    if (step.policies.empty()) return here_.flaw("needs a policy");
    if (step.times > 100) return here_.flaw("must not repeat more than 100 times");
    for (const auto& policy : step.policies) {
      for (const auto& operation : policy) FORELOAD_CHECK(here_.check_operation(operation));
    }
    return {};
  }
  Result<void> add(const step::RandomApply& step) {
    FORELOAD_CHECK(here_.check_probability(step.p));
    const ImageSize before = result_.form.size;
    FORELOAD_CHECK(add_nested(step.steps));
    if (result_.form.size != before) result_.form.size = {};
    return {};
  }
  Result<void> add(const step::RandomChoice& step) {
    if (step.choices.empty() || step.weights.size() != step.choices.size())
      return here_.flaw("needs one weight for each of its transforms, and at least one");
    double sum = 0;
    for (const double weight : step.weights) {
      if (!(weight >= 0) || !std::isfinite(weight))
        return here_.flaw("weights must not be below 0");
      sum += weight;
    }
    if (!(sum > 0)) return here_.flaw("weights must not all be 0");
    return add_each(step.choices);
  }
  Result<void> add(const step::RandomOrder& step) { return add_each(step.parts); }
  Result<void> add(const step::Normalize& step) {
    if (nested_) return here_.flaw("belongs behind what it is in");
    if (normalized_) return here_.flaw("is there twice; put both into one");
    if (typed_ && is_integer(result_.form.type)) {
      return here_.flaw(
          fmt::format("comes after ToDtype {} but gives float numbers; leave that ToDtype "
                      "out",
                      name_of(result_.form.type)));
    }
    if (result_.form.channels == 4) {
      return here_.flaw(
          "has a mean and std for colours, none for alpha; leave it out, or decode as RGB");
    }
    for (size_t i = 0; i < 3; ++i) {
      const auto mean = static_cast<float>(step.mean[i]);
      const auto std = static_cast<float>(step.std[i]);
      if (!std::isfinite(mean)) return here_.flaw("mean must be finite numbers");
      if (!std::isfinite(std) || !std::isfinite(1 / std)) {
        return here_.flaw("std must be finite numbers and none of them 0");
      }
      result_.math.mean[i] = mean;
      result_.math.std[i] = std;
    }
    normalized_ = true;
    if (!typed_) result_.form.type = PixelType::float32;
    return {};
  }
  Result<void> add(const step::ToDtype& step) {
    if (nested_) return here_.flaw("belongs behind what it is in");
    if (typed_) return here_.flaw("is there twice; leave one out");
    if (normalized_ && is_integer(step.type)) {
      return here_.flaw(
          fmt::format("{} cannot hold what Normalize gives; use a float type", name_of(step.type)));
    }
    const bool any_input = step.type == PixelType::float32 || step.type == PixelType::float16 ||
                           step.type == PixelType::bfloat16;
    if (!any_input && step.type != decoded_) {
      return here_.flaw(
          fmt::format("{} cannot be made from {}; use float32, float16 or bfloat16, or give "
                      "Decode the dtype {}",
                      name_of(step.type), name_of(decoded_), name_of(step.type)));
    }
    // After Normalize the numbers are floats already, and there is nothing left to scale.
    if (!normalized_ && !step.scale) result_.math.divisor = 1;
    if (!normalized_ && step.scale) result_.math.reciprocal = step.reciprocal;
    typed_ = true;
    result_.form.type = step.type;
    return {};
  }
  Result<void> add(const step::ToLayout& step) {
    if (nested_) return here_.flaw("belongs behind what it is in");
    if (laid_out_) return here_.flaw("is there twice; leave one out");
    laid_out_ = true;
    result_.form.layout = step.layout;
    return {};
  }

  Result<void> add_nested(const Steps& steps) {
    const std::string_view name = here_.name;
    const bool was_nested = std::exchange(nested_, true);
    FORELOAD_CHECK(add_all(steps));
    nested_ = was_nested;
    here_.name = name;
    return {};
  }
  // Any of them may be what happens, or what happens last.
  Result<void> add_each(const std::vector<Steps>& chains) {
    const ImageSize before = result_.form.size;
    std::optional<ImageSize> after;
    for (const Steps& chain : chains) {
      result_.form.size = before;
      FORELOAD_CHECK(add_nested(chain));
      if (after && *after != result_.form.size) after = ImageSize{};
      if (!after) after = result_.form.size;
    }
    result_.form.size = after.value_or(before);
    return {};
  }

  // A step that moves pixels.
  Result<void> check_image_step() const {
    if (result_.form.pictures > 1)
      return here_.flaw("takes one picture; move it in front of FiveCrop");
    if (!normalized_ && !typed_) return {};
    return here_.flaw(fmt::format("works on 8-bit images; move it in front of {}",
                                  normalized_ ? "Normalize" : "ToDtype"));
  }
  // A step that needs the whole picture.
  Result<void> check_picture_step() const {
    FORELOAD_CHECK(check_image_step());
    if (!result_.numbers) return {};
    return here_.flaw("works on 8-bit images without alpha; leave it out, or use a function");
  }
  Result<void> check_color_step() const {
    return mask_ ? check_image_step() : check_picture_step();
  }
  Result<void> check_random_color(double p) const {
    FORELOAD_CHECK(check_color_step());
    return here_.check_probability(p);
  }
  Result<void> check_padding(const std::array<uint32_t, 4>& padding, PaddingMode mode) const {
    for (const uint32_t side : padding) {
      if (side > StepInChain::kLongestSide)
        return here_.flaw(fmt::format("padding {} is too large", side));
    }
    if (mode != PaddingMode::constant) return check_picture_step();
    return {};
  }

  StepInChain here_;
  ChainResult result_;
  PixelType decoded_ = PixelType::uint8;
  bool normalized_ = false;
  bool typed_ = false;
  bool laid_out_ = false;
  bool nested_ = false;
  bool mask_ = false;
};

}  // namespace

Result<ChainResult> check_chain(Steps& steps, bool mask) {
  ChainCheck check(mask);
  FORELOAD_CHECK(check.add_all(steps));
  if (steps.empty() || !std::holds_alternative<step::Decode>(steps.front())) {
    steps.insert(steps.begin(), step::Decode{});
  }
  return check.result();
}

Steps mask_chain(const Steps& steps, PixelType type) {
  Steps masked = steps;
  auto& decode = std::get<step::Decode>(masked.front());
  decode = {.mode = ColorMode::grey, .exif_orientation = decode.exif_orientation, .type = type};
  // Colors stay in the chain: what they draw is left out, not given to the next step.
  std::erase_if(masked, [](const Step& step) {
    return std::holds_alternative<step::Normalize>(step) ||
           std::holds_alternative<step::ToDtype>(step);
  });
  return masked;
}

}  // namespace foreload
