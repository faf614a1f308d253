// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/picture_ops.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

namespace foreload {
namespace {

// The pixel that stands for `at`, which may lie outside, of `length` pixels.
uint32_t mirrored(int64_t at, uint32_t length, PaddingMode mode) {
  const int64_t last = int64_t{length} - 1;
  if (mode == PaddingMode::edge || length == 1)
    return static_cast<uint32_t>(std::clamp<int64_t>(at, 0, last));
  const int64_t period = mode == PaddingMode::reflect ? 2 * last : 2 * int64_t{length};
  at = (at % period + period) % period;
  if (at > last) at = mode == PaddingMode::reflect ? period - at : period - 1 - at;
  return static_cast<uint32_t>(at);
}

void pad(const MirrorPad& op, PixelBuffer& in, PixelBuffer& out) {
  const uint32_t channels = in.channels();
  const ImageSize size = size_after(op, in.size());
  out.reset(size, channels);
  std::vector<size_t> from(size.width);
  for (uint32_t x = 0; x < size.width; ++x) {
    from[x] = size_t{mirrored(int64_t{x} - op.padding[0], in.size().width, op.mode)} * channels;
  }
  for (uint32_t y = 0; y < size.height; ++y) {
    const uint8_t* row = in.row(mirrored(int64_t{y} - op.padding[1], in.size().height, op.mode));
    uint8_t* to = out.row(y);
    for (uint32_t x = 0; x < size.width; ++x, to += channels) {
      for (uint32_t c = 0; c < channels; ++c) to[c] = row[from[x] + c];
    }
  }
}

// torchvision's weights: a softmax over exponents.
std::vector<float> gaussian(uint32_t count, double sigma) {
  std::vector<double> weights(count);
  double sum = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const double x = (i - (count - 1) / 2.0) / sigma;
    sum += weights[i] = std::exp(-0.5 * x * x);
  }
  std::vector<float> result(count);
  for (uint32_t i = 0; i < count; ++i) result[i] = static_cast<float>(weights[i] / sum);
  return result;
}

void blur(const Blur& op, PixelBuffer& in, PixelBuffer& out) {
  const auto [width, height] = in.size();
  const uint32_t channels = in.channels();
  const std::vector<float> across = gaussian(op.kernel[0], op.sigma);
  const std::vector<float> down = gaussian(op.kernel[1], op.sigma);
  const size_t row_values = size_t{width} * channels;
  std::vector<float> wide((size_t{width} + op.kernel[0]) * channels);
  std::vector<float> once(row_values * height);  // blurred along x
  for (uint32_t y = 0; y < height; ++y) {
    const uint8_t* row = in.row(y);
    const int64_t reach = op.kernel[0] / 2;
    for (int64_t x = -reach; x < width + reach; ++x) {
      const uint8_t* pixel = row + size_t{mirrored(x, width, PaddingMode::reflect)} * channels;
      for (uint32_t c = 0; c < channels; ++c)
        wide[static_cast<size_t>(x + reach) * channels + c] = pixel[c];
    }
    float* to = &once[y * row_values];
    for (size_t i = 0; i < row_values; ++i) {
      float sum = 0;
      for (size_t tap = 0; tap < across.size(); ++tap)
        sum += across[tap] * wide[i + tap * channels];
      to[i] = sum;
    }
  }
  out.reset(in.size(), channels);
  std::vector<float> sums(row_values);
  for (uint32_t y = 0; y < height; ++y) {
    std::ranges::fill(sums, 0.0f);
    for (size_t tap = 0; tap < down.size(); ++tap) {
      const int64_t at = int64_t{y} + static_cast<int64_t>(tap) - op.kernel[1] / 2;
      const float* from = &once[mirrored(at, height, PaddingMode::reflect) * row_values];
      for (size_t i = 0; i < row_values; ++i) sums[i] += down[tap] * from[i];
    }
    uint8_t* to = out.row(y);
    for (size_t i = 0; i < row_values; ++i)
      to[i] = static_cast<uint8_t>(std::clamp(std::nearbyint(sums[i]), 0.0f, 255.0f));
  }
}

void erase(const EraseBox& op, PixelBuffer& picture) {
  const uint32_t channels = picture.channels();
  for (uint32_t y = op.box.y; y < op.box.y + op.box.height; ++y) {
    uint8_t* pixel = picture.row(y) + size_t{op.box.x} * channels;
    for (uint32_t x = 0; x < op.box.width; ++x, pixel += channels)
      std::memcpy(pixel, op.value.data(), channels);
  }
}

// How each operation works: in place, or into the spare picture.
struct Applied {
  PixelBuffer& picture;
  PixelBuffer& spare;

  // Returns whether the result is in `spare`.
  bool operator()(const JitterDraw& op) const { return change(picture, op); }
  bool operator()(const ColorTable& op) const { return change(picture, op); }
  bool operator()(const AutoContrast& op) const { return change(picture, op); }
  bool operator()(const Equalize& op) const { return change(picture, op); }
  bool operator()(const EraseBox& op) const {
    erase(op, picture);
    return false;
  }
  bool operator()(const Grey& op) const { return make(op); }
  bool operator()(const Sharpen& op) const { return make(op); }
  bool operator()(const Warp& op) const { return make(op); }
  bool operator()(const QuarterTurns& op) const { return make(op); }
  bool operator()(const Blur& op) const {
    blur(op, picture, spare);
    return true;
  }
  bool operator()(const MirrorPad& op) const {
    pad(op, picture, spare);
    return true;
  }

 private:
  template <class Op>
  static bool change(PixelBuffer& picture, const Op& op) {
    apply_colors(op, picture);
    return false;
  }
  template <class Op>
  bool make(const Op& op) const {
    make_picture(op, picture, spare);
    return true;
  }
};

}  // namespace

bool commutes_with_flips(const PictureOp& op) {
  return std::holds_alternative<JitterDraw>(op) || std::holds_alternative<ColorTable>(op) ||
         std::holds_alternative<AutoContrast>(op) || std::holds_alternative<Equalize>(op) ||
         std::holds_alternative<Grey>(op);
}

ImageSize size_after(const PictureOp& op, ImageSize size) {
  if (const auto* warp = std::get_if<Warp>(&op)) return warp->size;
  if (const auto* turns = std::get_if<QuarterTurns>(&op))
    return turns->count % 2 == 1 ? ImageSize{size.height, size.width} : size;
  if (const auto* pad = std::get_if<MirrorPad>(&op)) {
    const auto [left, top, right, bottom] = pad->padding;
    return {size.width + left + right, size.height + top + bottom};
  }
  return size;
}

void apply(const PictureOp& op, PixelBuffer*& picture, PixelBuffer*& spare) {
  if (std::visit(Applied{*picture, *spare}, op)) std::swap(picture, spare);
}

}  // namespace foreload
