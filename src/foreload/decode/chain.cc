// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/chain.h"

#include <cmath>

#include <fmt/format.h>

namespace foreload {
namespace {

// Walks over a chain, remembering what was seen.
class ChainCheck {
 public:
  Result<void> add(const step::Decode& step) {
    if (number_ > 1) return flaw("must be the first step");
    if (step.type == PixelType::bfloat16) return flaw("no file holds bfloat16; use float32");
    result_.form.channels = channels_of(step.mode);
    result_.form.type = step.type;
    result_.math.divisor = largest(step.type);
    result_.numbers = step.numbers();
    decoded_ = step.type;
    return {};
  }
  Result<void> add(const step::RandomResizedCrop& step) {
    FORELOAD_CHECK(check_image_step());
    FORELOAD_CHECK(check_size(step.size));
    if (!(step.scale[0] > 0 && step.scale[0] <= step.scale[1]) || !std::isfinite(step.scale[1])) {
      return flaw("scale must be two positive shares of the area, the smaller one first");
    }
    if (!(step.ratio[0] > 0 && step.ratio[0] <= step.ratio[1]) || !std::isfinite(step.ratio[1])) {
      return flaw("ratio must be two positive ratios of width to height, the smaller one first");
    }
    result_.form.size = step.size;
    return {};
  }
  Result<void> add(const step::Resize& step) {
    FORELOAD_CHECK(check_image_step());
    if (step.shorter == 0) {
      FORELOAD_CHECK(check_size(step.size));
      if (step.longest) return flaw("max_size needs a size of one number, the shorter side");
      result_.form.size = step.size;
      return {};
    }
    if (step.size != ImageSize{})
      return flaw(
          "width, height and shorter side are all given; give both sides, or the shorter one");
    if (step.longest && *step.longest <= step.shorter) {
      return flaw(fmt::format("max_size {} must be larger than the shorter side, {}", *step.longest,
                              step.shorter));
    }
    FORELOAD_CHECK(check_size({step.shorter, step.shorter}));
    result_.form.size = {};
    return {};
  }
  Result<void> add(const step::CenterCrop& step) {
    FORELOAD_CHECK(check_image_step());
    FORELOAD_CHECK(check_size(step.size));
    result_.form.size = step.size;
    return {};
  }
  Result<void> add(const step::RandomCrop& step) {
    FORELOAD_CHECK(check_image_step());
    FORELOAD_CHECK(check_size(step.size));
    for (const uint32_t side : step.padding) {
      if (side > kLongestSide) return flaw(fmt::format("padding {} is too large", side));
    }
    result_.form.size = step.size;
    return {};
  }
  Result<void> add(const step::RandomHorizontalFlip& step) {
    FORELOAD_CHECK(check_image_step());
    if (!(step.p >= 0 && step.p <= 1)) return flaw("p must be a probability from 0 to 1");
    return {};
  }
  Result<void> add(const step::ColorJitter& step) {
    FORELOAD_CHECK(check_image_step());
    if (result_.numbers)
      return flaw("works on 8-bit images without alpha; leave it out, or use a function");
    for (const auto& [low, high] : {step.brightness, step.contrast, step.saturation}) {
      if (!(low >= 0 && low <= high) || !std::isfinite(high)) {
        return flaw("each range must be two factors not below 0, the smaller one first");
      }
    }
    return {};
  }
  Result<void> add(const step::Normalize& step) {
    if (normalized_) return flaw("is there twice; put both into one");
    if (typed_ && is_integer(result_.form.type)) {
      return flaw(
          fmt::format("comes after ToDtype {} but gives float numbers; leave that ToDtype "
                      "out",
                      name_of(result_.form.type)));
    }
    if (result_.form.channels == 4) {
      return flaw("has a mean and std for colours, none for alpha; leave it out, or decode as RGB");
    }
    for (size_t i = 0; i < 3; ++i) {
      const auto mean = static_cast<float>(step.mean[i]);
      const auto std = static_cast<float>(step.std[i]);
      if (!std::isfinite(mean)) return flaw("mean must be finite numbers");
      if (!std::isfinite(std) || !std::isfinite(1 / std)) {
        return flaw("std must be finite numbers and none of them 0");
      }
      result_.math.mean[i] = mean;
      result_.math.std[i] = std;
    }
    normalized_ = true;
    if (!typed_) result_.form.type = PixelType::float32;
    return {};
  }
  Result<void> add(const step::ToDtype& step) {
    if (typed_) return flaw("is there twice; leave one out");
    if (normalized_ && is_integer(step.type)) {
      return flaw(
          fmt::format("{} cannot hold what Normalize gives; use a float type", name_of(step.type)));
    }
    const bool any_input = step.type == PixelType::float32 || step.type == PixelType::float16 ||
                           step.type == PixelType::bfloat16;
    if (!any_input && step.type != decoded_) {
      return flaw(
          fmt::format("{} cannot be made from {}; use float32, float16 or bfloat16, or give "
                      "Decode the dtype {}",
                      name_of(step.type), name_of(decoded_), name_of(step.type)));
    }
    // After Normalize the numbers are floats already, and there is nothing left to scale.
    if (!normalized_ && !step.scale) result_.math.divisor = 1;
    typed_ = true;
    result_.form.type = step.type;
    return {};
  }
  Result<void> add(const step::ToLayout& step) {
    if (laid_out_) return flaw("is there twice; leave one out");
    laid_out_ = true;
    result_.form.layout = step.layout;
    return {};
  }

  void next(const Step& step) {
    ++number_;
    name_ = name_of(step);
  }
  const ChainResult& result() const { return result_; }

 private:
  static constexpr uint32_t kLongestSide = 1 << 20;

  tl::unexpected<Error> flaw(std::string_view what) const {
    return fail(ErrorKind::invalid, fmt::format("step {} ({}): {}", number_, name_, what));
  }
  Result<void> check_image_step() const {
    if (!normalized_ && !typed_) return {};
    return flaw(fmt::format("works on 8-bit images; move it in front of {}",
                            normalized_ ? "Normalize" : "ToDtype"));
  }
  Result<void> check_size(ImageSize size) const {
    if (size.width == 0 || size.height == 0) return flaw("size must be at least 1 x 1 pixel");
    if (size.width > kLongestSide || size.height > kLongestSide) {
      return flaw(fmt::format("size {} x {} is too large; give at most {} pixels a side",
                              size.width, size.height, kLongestSide));
    }
    return {};
  }

  // What torchvision divides by to come to [0, 1]; floats are taken to be there.
  static float largest(PixelType type) {
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

  ChainResult result_;
  PixelType decoded_ = PixelType::uint8;
  size_t number_ = 0;
  std::string_view name_;
  bool normalized_ = false;
  bool typed_ = false;
  bool laid_out_ = false;
};

}  // namespace

Result<ChainResult> check_chain(std::vector<Step>& steps) {
  ChainCheck check;
  for (const Step& step : steps) {
    check.next(step);
    FORELOAD_CHECK(std::visit([&check](const auto& kind) { return check.add(kind); }, step));
  }
  if (steps.empty() || !std::holds_alternative<step::Decode>(steps.front())) {
    steps.insert(steps.begin(), step::Decode{});
  }
  return check.result();
}

}  // namespace foreload
