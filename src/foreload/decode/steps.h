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
#include "foreload/decode/color_steps.h"
#include "foreload/decode/decoder.h"
#include "foreload/decode/resample.h"

namespace foreload {

// The first four are what a batch of images can be; the others come from files that hold them.
enum class PixelType : uint8_t { uint8, float32, float16, bfloat16, uint16, int16, int32, float64 };
enum class Layout : uint8_t { chw, hwc };
enum class PaddingMode : uint8_t { constant, edge, reflect, symmetric };
// What an operation of step::Augment does.
enum class AugmentKind : uint8_t {
  identity,
  shear_x,
  shear_y,
  translate_x,
  translate_y,
  rotate,
  brightness,
  color,
  contrast,
  sharpness,
  posterize,
  solarize,
  auto_contrast,
  equalize,
  invert
};

std::string_view name_of(PixelType type);
std::string_view name_of(Layout layout);
std::string_view name_of(Interpolation interpolation);
std::string_view name_of(ResizeRule rule);
std::string_view name_of(ColorMode mode);
std::string_view name_of(PaddingMode mode);
std::string_view name_of(AugmentKind kind);
uint32_t bytes_of(PixelType type);
bool is_integer(PixelType type);

namespace step {

struct Decode {
  static constexpr std::string_view kName = "Decode";
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
using Fill = std::array<uint8_t, 3>;

struct RandomResizedCrop {
  static constexpr std::string_view kName = "RandomResizedCrop";
  ImageSize size;
  std::array<double, 2> scale{0.08, 1.0};
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
  Interpolation interpolation = Interpolation::bilinear;
  ResizeRule rule = ResizeRule::pillow;
};
// Either both sides, or the shorter one (`shorter` > 0) and what follows for the longer one, which
// is not above `longest` if that is given.
struct Resize {
  static constexpr std::string_view kName = "Resize";
  ImageSize size;
  uint32_t shorter = 0;
  std::optional<uint32_t> longest;
  Interpolation interpolation = Interpolation::bilinear;
  ResizeRule rule = ResizeRule::pillow;
};
// Pads with 0 where the image is smaller.
struct CenterCrop {
  static constexpr std::string_view kName = "CenterCrop";
  ImageSize size;
};
struct RandomCrop {
  static constexpr std::string_view kName = "RandomCrop";
  ImageSize size;
  std::array<uint32_t, 4> padding{0, 0, 0, 0};  // left, top, right, bottom
  bool pad_if_needed = false;
  Fill fill{0, 0, 0};
  PaddingMode mode = PaddingMode::constant;
};
struct Pad {
  static constexpr std::string_view kName = "Pad";
  std::array<uint32_t, 4> padding{0, 0, 0, 0};  // left, top, right, bottom
  Fill fill{0, 0, 0};
  PaddingMode mode = PaddingMode::constant;
};
// Four corners and the middle as five pictures; of `ten`, the same again, flipped.
struct FiveCrop {
  static constexpr std::string_view kName = "FiveCrop";
  ImageSize size;
  bool ten = false;
  bool vertical_flip = false;  // of the second five: top to bottom instead of left to right
};
struct RandomHorizontalFlip {
  static constexpr std::string_view kName = "RandomHorizontalFlip";
  double p = 0.5;
};
struct RandomVerticalFlip {
  static constexpr std::string_view kName = "RandomVerticalFlip";
  double p = 0.5;
};
// Counter-clockwise, in degrees, around the center of the image or the one given (x, y).
struct RandomRotation {
  static constexpr std::string_view kName = "RandomRotation";
  std::array<double, 2> degrees{0, 0};
  Interpolation interpolation = Interpolation::nearest;
  bool expand = false;
  std::optional<std::array<double, 2>> center;
  Fill fill{0, 0, 0};
};
// Shifts are shares of width and height; shears are degrees along x and along y.
struct RandomAffine {
  static constexpr std::string_view kName = "RandomAffine";
  std::array<double, 2> degrees{0, 0};
  std::optional<std::array<double, 2>> translate;
  std::optional<std::array<double, 2>> scale;
  std::optional<std::array<double, 4>> shear;
  Interpolation interpolation = Interpolation::nearest;
  Fill fill{0, 0, 0};
  std::optional<std::array<double, 2>> center;
  bool first_generation = false;  // the arithmetic of torchvision.transforms, not of its v2
};
struct RandomPerspective {
  static constexpr std::string_view kName = "RandomPerspective";
  double distortion_scale = 0.5;
  double p = 0.5;
  Interpolation interpolation = Interpolation::bilinear;
  Fill fill{0, 0, 0};
};
// Each factor is drawn from its range; they are applied in random order, with Pillow's
// ImageEnhance arithmetic. A hue of {0, 0} leaves hues alone.
struct ColorJitter {
  static constexpr std::string_view kName = "ColorJitter";
  std::array<double, 2> brightness{1, 1};
  std::array<double, 2> contrast{1, 1};
  std::array<double, 2> saturation{1, 1};
  std::array<double, 2> hue{0, 0};  // shares of a turn
};
// One channel, or three equal ones.
struct Grayscale {
  static constexpr std::string_view kName = "Grayscale";
  uint32_t channels = 1;
};
struct RandomGrayscale {
  static constexpr std::string_view kName = "RandomGrayscale";
  double p = 0.1;
};
struct GaussianBlur {
  static constexpr std::string_view kName = "GaussianBlur";
  std::array<uint32_t, 2> kernel{3, 3};  // along x and along y, odd
  std::array<double, 2> sigma{0.1, 2.0};
};
// Before Normalize and ToDtype `value` is of 8 bits, after them it is of the output's type. Noise
// is normal, of mean 0 and variance 1, and for floats only.
struct RandomErasing {
  static constexpr std::string_view kName = "RandomErasing";
  double p = 0.5;
  std::array<double, 2> scale{0.02, 0.33};
  std::array<double, 2> ratio{0.3, 3.3};
  std::array<double, 3> value{0, 0, 0};
  bool noise = false;
};
// One of the policies is drawn, `times` times over; each of its operations happens with its
// probability, with one of its magnitudes.
struct Augment {
  static constexpr std::string_view kName = "Augment";
  struct Operation {
    AugmentKind kind = AugmentKind::identity;
    double p = 1;
    std::vector<double> magnitudes;  // none: 0
    bool either_sign = false;
    // Of shifts: magnitudes are numbers among `bins` steps from 0 to this share of the side.
    double share = 0;
    uint32_t bins = 0;
  };
  std::vector<std::vector<Operation>> policies;
  uint32_t times = 1;
  Interpolation interpolation = Interpolation::nearest;
  Fill fill{0, 0, 0};
  bool first_generation = false;  // as RandomAffine's
};
// To [0, 1], then (x - mean) / std by channel; the result is a float type.
struct Normalize {
  static constexpr std::string_view kName = "Normalize";
  std::array<double, 3> mean{0, 0, 0};
  std::array<double, 3> std{1, 1, 1};
};
// uint8 to a float type without Normalize scales to [0, 1] if `scale`: by division, as
// torchvision's ToTensor does it, or by `reciprocal` multiplication, as its v2.ToDtype does it.
struct ToDtype {
  static constexpr std::string_view kName = "ToDtype";
  PixelType type = PixelType::float32;
  bool scale = true;
  bool reciprocal = false;
};
struct ToLayout {
  static constexpr std::string_view kName = "ToLayout";
  Layout layout = Layout::chw;
};
struct RandomApply;
struct RandomChoice;
struct RandomOrder;

}  // namespace step

using Step = std::variant<
    step::Decode, step::RandomResizedCrop, step::Resize, step::CenterCrop, step::RandomCrop,
    step::Pad, step::FiveCrop, step::RandomHorizontalFlip, step::RandomVerticalFlip,
    step::RandomRotation, step::RandomAffine, step::RandomPerspective, step::ColorJitter,
    step::Grayscale, step::RandomGrayscale, step::RandomInvert, step::RandomPosterize,
    step::RandomSolarize, step::RandomAdjustSharpness, step::RandomAutocontrast,
    step::RandomEqualize, step::GaussianBlur, step::RandomErasing, step::Augment, step::RandomApply,
    step::RandomChoice, step::RandomOrder, step::Normalize, step::ToDtype, step::ToLayout>;
using Steps = std::vector<Step>;

namespace step {

// All of the steps with probability p, or none.
struct RandomApply {
  static constexpr std::string_view kName = "RandomApply";
  Steps steps;
  double p = 0.5;
};
// One of several chains; `weights` may be of any sum above 0.
struct RandomChoice {
  static constexpr std::string_view kName = "RandomChoice";
  std::vector<Steps> choices;
  std::vector<double> weights;
};
// All of several chains, in random order.
struct RandomOrder {
  static constexpr std::string_view kName = "RandomOrder";
  std::vector<Steps> parts;
};

}  // namespace step

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
