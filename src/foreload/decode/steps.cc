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
    case PixelType::uint16:
      return "uint16";
    case PixelType::int16:
      return "int16";
    case PixelType::int32:
      return "int32";
    case PixelType::float64:
      return "float64";
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

std::string_view name_of(ResizeRule rule) {
  return rule == ResizeRule::torch ? "torch" : "pillow";
}

std::string_view name_of(PaddingMode mode) {
  constexpr std::array<std::string_view, 4> kNames{"constant", "edge", "reflect", "symmetric"};
  return kNames[static_cast<size_t>(mode)];
}

std::string_view name_of(AugmentKind kind) {
  constexpr std::array<std::string_view, 15> kNames{
      "Identity",  "ShearX",     "ShearY",       "TranslateX", "TranslateY",
      "Rotate",    "Brightness", "Color",        "Contrast",   "Sharpness",
      "Posterize", "Solarize",   "AutoContrast", "Equalize",   "Invert"};
  return kNames[static_cast<size_t>(kind)];
}

std::string_view name_of(ColorMode mode) {
  switch (mode) {
    case ColorMode::rgb:
      return "rgb";
    case ColorMode::grey:
      return "grey";
    case ColorMode::rgba:
      return "rgba";
  }
  return "unknown";
}

uint32_t bytes_of(PixelType type) {
  switch (type) {
    case PixelType::uint8:
      return 1;
    case PixelType::float16:
    case PixelType::bfloat16:
    case PixelType::uint16:
    case PixelType::int16:
      return 2;
    case PixelType::float32:
    case PixelType::int32:
      return 4;
    case PixelType::float64:
      return 8;
  }
  return 0;
}

bool is_integer(PixelType type) {
  return type == PixelType::uint8 || type == PixelType::uint16 || type == PixelType::int16 ||
         type == PixelType::int32;
}

std::string_view name_of(const Step& step) {
  return std::visit([](const auto& kind) { return kind.kName; }, step);
}

}  // namespace foreload
