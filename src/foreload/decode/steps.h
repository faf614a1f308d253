// SPDX-License-Identifier: Apache-2.0
//
// The steps of a transform, with torchvision's names, defaults and meaning. A chain of them is
// data: it has a JSON form, which Python writes, and a hash.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/resample.h"

namespace foreload {

// The first four are what a batch of images can be; the others come from files that hold them.
enum class PixelType : uint8_t { uint8, float32, float16, bfloat16, uint16, int16, int32, float64 };
enum class Layout : uint8_t { chw, hwc };

std::string_view name_of(PixelType type);
std::string_view name_of(Layout layout);
std::string_view name_of(Interpolation interpolation);
std::string_view name_of(ColorMode mode);
uint32_t bytes_of(PixelType type);
bool is_integer(PixelType type);

namespace step {

struct Decode {
  ColorMode mode = ColorMode::rgb;
  bool exif_orientation = false;
  // JPEG is decoded at 1/2, 1/4 or 1/8 where the steps after it shrink by 3/4 of that or more.
  bool fast = false;
  // What files hold: uint8, or uint16 (8-bit images are widened), or, in .npy files only, any
  // type but bfloat16.
  PixelType type = PixelType::uint8;

  // Whether values are more than the one or three bytes a pixel that the quick way is made for.
  bool numbers() const { return type != PixelType::uint8 || mode == ColorMode::rgba; }
};
struct RandomResizedCrop {
  ImageSize size;
  std::array<double, 2> scale{0.08, 1.0};
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
  Interpolation interpolation = Interpolation::bilinear;
};
// Either both sides, or the shorter one (`shorter` > 0) and what follows for the longer one, which
// is not above `longest` if that is given.
struct Resize {
  ImageSize size;
  uint32_t shorter = 0;
  std::optional<uint32_t> longest;
  Interpolation interpolation = Interpolation::bilinear;
};
// Pads with 0 where the image is smaller.
struct CenterCrop {
  ImageSize size;
};
struct RandomCrop {
  ImageSize size;
  std::array<uint32_t, 4> padding{0, 0, 0, 0};  // left, top, right, bottom
  bool pad_if_needed = false;
  std::array<uint8_t, 3> fill{0, 0, 0};
};
struct RandomHorizontalFlip {
  double p = 0.5;
};
// Each factor is drawn from its range; the three are applied in random order, with Pillow's
// ImageEnhance arithmetic.
struct ColorJitter {
  std::array<double, 2> brightness{1, 1};
  std::array<double, 2> contrast{1, 1};
  std::array<double, 2> saturation{1, 1};
};
// To [0, 1], then (x - mean) / std by channel; the result is a float type.
struct Normalize {
  std::array<double, 3> mean{0, 0, 0};
  std::array<double, 3> std{1, 1, 1};
};
// uint8 to a float type without Normalize scales to [0, 1] if `scale`.
struct ToDtype {
  PixelType type = PixelType::float32;
  bool scale = true;
};
struct ToLayout {
  Layout layout = Layout::chw;
};

}  // namespace step

using Step = std::variant<step::Decode, step::RandomResizedCrop, step::Resize, step::CenterCrop,
                          step::RandomCrop, step::RandomHorizontalFlip, step::ColorJitter,
                          step::Normalize, step::ToDtype, step::ToLayout>;

// "RandomResizedCrop", ...
std::string_view name_of(const Step& step);

// [{"step": "RandomResizedCrop", "size": [224, 224], "scale": [0.08, 1.0]}, ...]: sizes are height,
// width as in torchvision, one number stands for a square and, for Resize, for the shorter side
// (its "max_size" is the limit of the longer one); what is left out has its default. Fails with
// `invalid`; an unknown step or key is named, with the known ones.
Result<std::vector<Step>> steps_from_json(std::string_view json);
// Every key written out, so that equal chains have equal texts.
std::string to_json(const std::vector<Step>& steps);

}  // namespace foreload
