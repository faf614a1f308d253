// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/steps.h"

#include <array>

namespace foreload {

std::string_view name_of(PixelType type) {
  switch (type) {
    case PixelType::uint8:
      return "uint8";
    case PixelType::float32:
      return "float32";
    case PixelType::float16:
      return "float16";
    case PixelType::bfloat16:
      return "bfloat16";
  }
  return "unknown";
}

std::string_view name_of(Layout layout) {
  return layout == Layout::chw ? "chw" : "hwc";
}

std::string_view name_of(Interpolation interpolation) {
  switch (interpolation) {
    case Interpolation::nearest:
      return "nearest";
    case Interpolation::bilinear:
      return "bilinear";
    case Interpolation::bicubic:
      return "bicubic";
  }
  return "unknown";
}

std::string_view name_of(ColorMode mode) {
  return mode == ColorMode::rgb ? "rgb" : "grey";
}

uint32_t bytes_of(PixelType type) {
  switch (type) {
    case PixelType::uint8:
      return 1;
    case PixelType::float32:
      return 4;
    case PixelType::float16:
    case PixelType::bfloat16:
      return 2;
  }
  return 0;
}

std::string_view name_of(const Step& step) {
  constexpr std::array<std::string_view, std::variant_size_v<Step>> kNames{
      "Decode",      "RandomResizedCrop", "Resize",
      "CenterCrop",  "RandomCrop",        "RandomHorizontalFlip",
      "ColorJitter", "Normalize",         "ToDtype",
      "ToLayout"};
  return kNames[step.index()];
}

}  // namespace foreload
