// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/number_passes.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "foreload/decode/erase.h"
#include "foreload/decode/number_image.h"
#include "foreload/decode/row_resampler.h"

namespace foreload {
namespace {

// The resize of a pass, for the part of its window that shows the image.
struct VisibleResize {
  explicit VisibleResize(const Pass& pass) {
    const auto along = [](int64_t offset, uint32_t wanted, uint32_t crop, uint32_t resized) {
      const int64_t begin = std::clamp<int64_t>(offset, 0, resized);
      const int64_t end = std::clamp<int64_t>(offset + wanted, begin, resized);
      return Axis{.input = crop,
                  .from = 0,
                  .to = static_cast<double>(crop),
                  .outputs = resized,
                  .first = static_cast<uint32_t>(begin),
                  .count = static_cast<uint32_t>(end - begin)};
    };
    resizing.x = along(pass.left, pass.size.width, pass.crop.width, pass.resized.width);
    resizing.y = along(pass.top, pass.size.height, pass.crop.height, pass.resized.height);
    resizing.interpolation = pass.interpolation;
  }
  bool empty() const { return resizing.x.count == 0 || resizing.y.count == 0; }
  // Of the crop.
  Region needs() const { return empty() ? Region{0, 0, 1, 1} : resizing.needs(); }

  Resizing resizing;
};

// Pillow rounds halves away from zero.
double rounded(double value, double least, double most) {
  const double whole = value >= 0 ? std::floor(value + 0.5) : -std::floor(-value + 0.5);
  return std::clamp(whole, least, most);
}

// What a sum of weighed values becomes.
double settled(double sum, PixelType type) {
  switch (type) {
    case PixelType::uint8:
      return std::clamp(std::floor((sum + (1 << (kWeightBits - 1))) / (1 << kWeightBits)), 0.0,
                        255.0);
    case PixelType::uint16:
      return rounded(sum, 0, 65535);
    case PixelType::int16:
      return rounded(sum, -32768, 32767);
    case PixelType::int32:
      return rounded(sum, -2147483648.0, 2147483647.0);
    case PixelType::float32:
      return static_cast<float>(sum);
    default:
      return sum;
  }
}

std::vector<Taps> taps_of(const Axis& axis, Interpolation interpolation, PixelType type) {
  std::vector<Taps> all;
  if (interpolation == Interpolation::nearest || axis.identity()) {
    std::vector<uint32_t> inputs(axis.count);
    if (axis.identity()) {
      for (uint32_t i = 0; i < axis.count; ++i) inputs[i] = axis.first + i;
    } else {
      compute_nearest(axis, false, 0, inputs);
    }
    for (const uint32_t input : inputs) all.push_back({input, {1.0}});
  } else {
    all = compute_taps(axis, interpolation);
  }
  if (type != PixelType::uint8) return all;
  for (Taps& taps : all) {
    for (double& weight : taps.weights) {
      const double scaled = weight * (1 << kWeightBits);
      weight = std::trunc(weight < 0 ? scaled - 0.5 : scaled + 0.5);
    }
  }
  return all;
}

// `in` begins at `origin` of the axis's input.
NumberImage resize_columns(const NumberImage& in, const Axis& axis, uint32_t origin,
                           Interpolation interpolation, PixelType type) {
  const auto all = taps_of(axis, interpolation, type);
  NumberImage out({axis.count, in.size.height}, in.channels);
  for (uint32_t y = 0; y < out.size.height; ++y) {
    for (uint32_t x = 0; x < axis.count; ++x) {
      const double* from = in.pixel(all[x].start - origin, y);
      double* to = out.pixel(x, y);
      for (uint32_t channel = 0; channel < in.channels; ++channel) {
        double sum = 0;
        for (size_t tap = 0; tap < all[x].weights.size(); ++tap) {
          sum += from[tap * in.channels + channel] * all[x].weights[tap];
        }
        to[channel] = settled(sum, type);
      }
    }
  }
  return out;
}

NumberImage resize_rows(const NumberImage& in, const Axis& axis, uint32_t origin,
                        Interpolation interpolation, PixelType type) {
  const auto all = taps_of(axis, interpolation, type);
  NumberImage out({in.size.width, axis.count}, in.channels);
  const size_t row = size_t{in.size.width} * in.channels;
  for (uint32_t y = 0; y < axis.count; ++y) {
    const double* from = in.pixel(0, all[y].start - origin);
    double* to = out.pixel(0, y);
    for (size_t i = 0; i < row; ++i) {
      double sum = 0;
      for (size_t tap = 0; tap < all[y].weights.size(); ++tap) {
        sum += from[tap * row + i] * all[y].weights[tap];
      }
      to[i] = settled(sum, type);
    }
  }
  return out;
}

// Colours as far as they show, so that hidden ones do not spread; and back.
void weigh_by_alpha(NumberImage& image, double opaque) {
  for (size_t i = 0; i < image.values.size(); i += 4) {
    double* const pixel = &image.values[i];
    for (size_t c = 0; c < 3; ++c) pixel[c] = std::floor(pixel[c] * pixel[3] / opaque + 0.5);
  }
}

void unweigh(NumberImage& image, double opaque) {
  for (size_t i = 0; i < image.values.size(); i += 4) {
    double* const pixel = &image.values[i];
    if (pixel[3] == 0 || pixel[3] == opaque) continue;
    for (size_t c = 0; c < 3; ++c)
      pixel[c] = std::min(std::floor(pixel[c] * opaque / pixel[3]), opaque);
  }
}

// `in` is what the pass needs of its crop.
NumberImage resized(NumberImage in, const VisibleResize& visible, PixelType type) {
  const Resizing& resizing = visible.resizing;
  const Interpolation how = resizing.interpolation;
  const Region needs = visible.needs();
  const bool weighs = in.channels == 4 && how != Interpolation::nearest &&
                      (type == PixelType::uint8 || type == PixelType::uint16) &&
                      !(resizing.x.identity() && resizing.y.identity());
  const double opaque = type == PixelType::uint8 ? 255 : 65535;
  if (weighs) weigh_by_alpha(in, opaque);
  if (resizing.vertical_first()) {
    in = resize_rows(in, resizing.y, needs.y, how, type);
    in = resize_columns(in, resizing.x, needs.x, how, type);
  } else {
    in = resize_columns(in, resizing.x, needs.x, how, type);
    in = resize_rows(in, resizing.y, needs.y, how, type);
  }
  if (weighs) unweigh(in, opaque);
  return in;
}

// One number as fill goes for alpha too; three colours are opaque.
double fill_of(const Pass& pass, uint32_t channel) {
  if (channel < 3) return pass.fill[channel];
  const bool one = pass.fill[0] == pass.fill[1] && pass.fill[1] == pass.fill[2];
  return one ? pass.fill[0] : 255;
}

NumberImage run_pass(NumberImage in, const Pass& pass, PixelType type) {
  const VisibleResize visible(pass);
  const uint32_t channels = in.channels;
  NumberImage shown = visible.empty()  ? NumberImage({0, 0}, channels)
                      : pass.resizes() ? resized(std::move(in), visible, type)
                                       : std::move(in);
  if (shown.size == pass.size && !pass.flip && !pass.flip_rows) return shown;
  NumberImage out(pass.size, channels);
  const int64_t left = visible.resizing.x.first - pass.left;  // of padding
  const int64_t top = visible.resizing.y.first - pass.top;
  for (uint32_t y = 0; y < pass.size.height; ++y) {
    for (uint32_t x = 0; x < pass.size.width; ++x) {
      const int64_t from_x = (pass.flip ? pass.size.width - 1 - x : x) - left;
      const int64_t from_y = (pass.flip_rows ? pass.size.height - 1 - y : y) - top;
      const bool inside =
          from_x >= 0 && from_y >= 0 && from_x < shown.size.width && from_y < shown.size.height;
      double* const to = out.pixel(x, y);
      for (uint32_t c = 0; c < channels; ++c) {
        to[c] = inside
                    ? shown.pixel(static_cast<uint32_t>(from_x), static_cast<uint32_t>(from_y))[c]
                    : fill_of(pass, c);
      }
    }
  }
  return out;
}

template <class Number>
void store(Number number, std::byte* to) {
  std::memcpy(to, &number, sizeof number);
}

void write_number(double value, uint32_t channel, const NumberSettings& settings, std::byte* to) {
  const PixelType type = settings.form.type;
  const bool floats = !is_integer(type) && type != PixelType::float64;
  float number = 0;
  if (floats) {
    number = settings.math.unit(static_cast<float>(value));
    if (channel < 3) number = (number - settings.math.mean[channel]) / settings.math.std[channel];
  }
  switch (type) {
    case PixelType::uint8:
      return store(static_cast<uint8_t>(value), to);
    case PixelType::uint16:
      return store(static_cast<uint16_t>(value), to);
    case PixelType::int16:
      return store(static_cast<int16_t>(value), to);
    case PixelType::int32:
      return store(static_cast<int32_t>(value), to);
    case PixelType::float64:
      return store(value, to);
    case PixelType::float32:
      return store(number, to);
    case PixelType::float16:
      return store(to_float16(number), to);
    case PixelType::bfloat16:
      return store(to_bfloat16(number), to);
  }
}

void write(const NumberImage& image, const NumberSettings& settings, std::byte* into) {
  const size_t bytes = bytes_of(settings.form.type);
  const size_t pixels = size_t{image.size.width} * image.size.height;
  const bool planar = settings.form.layout == Layout::chw;
  const double* from = image.values.data();
  for (size_t pixel = 0; pixel < pixels; ++pixel) {
    for (uint32_t channel = 0; channel < image.channels; ++channel) {
      const size_t at = planar ? channel * pixels + pixel : pixel * image.channels + channel;
      write_number(*from++, channel, settings, into + at * bytes);
    }
  }
}

Result<NumberImage> read_numbers(std::span<const std::byte> file, const ImageHeader& header,
                                 const NumberSettings& settings, const Region& region,
                                 Scratch& scratch) {
  if (is_npy(file)) {
    FORELOAD_TRY(const NpyArray array, parse_npy(file));
    return numbers_of(array, settings.decoded, settings.options.mode, region);
  }
  if (settings.decoded != PixelType::uint8 && settings.decoded != PixelType::uint16) {
    return fail(
        ErrorKind::invalid,
        fmt::format(
            "the file is an image, but the transform decodes {}, which only .npy files hold; "
            "give Decode the dtype uint8 or uint16",
            name_of(settings.decoded)));
  }
  DecodeOptions options = settings.options;
  options.wide = settings.decoded == PixelType::uint16;
  if (header.format == nullptr) {
    NumberImage image = numbers_of(scratch.decoded.view(), region, false);
    if (options.wide) {
      for (double& value : image.values) value *= 257;
    }
    return image;
  }
  FORELOAD_CHECK(decode(file, header, options, region, 1, scratch.decoded, scratch));
  return numbers_of(scratch.decoded.view(), {0, 0, region.width, region.height}, options.wide);
}

}  // namespace

Result<void> run_number_passes(std::span<const std::byte> file, const ImageHeader& header,
                               const SamplePlan& plan, const NumberSettings& settings,
                               std::span<std::byte> into, Scratch& scratch) {
  const Pass& first = plan.passes.front();
  Region needed = VisibleResize(first).needs();
  needed.x += first.crop.x;
  needed.y += first.crop.y;
  FORELOAD_TRY(NumberImage image, read_numbers(file, header, settings, needed, scratch));
  for (const Pass& pass : plan.passes) {
    assert(pass.ops.empty());
    if (&pass != &first) {
      Region part = VisibleResize(pass).needs();
      NumberImage cut({part.width, part.height}, image.channels);
      for (uint32_t y = 0; y < part.height; ++y) {
        std::copy_n(image.pixel(pass.crop.x + part.x, pass.crop.y + part.y + y),
                    size_t{part.width} * image.channels, cut.pixel(0, y));
      }
      image = std::move(cut);
    }
    image = run_pass(std::move(image), pass, settings.decoded);
  }
  assert(into.size() == image.values.size() * bytes_of(settings.form.type));
  write(image, settings, into.data());
  for (const Erasure& erasure : plan.erasures) erase(erasure, settings.form, image.size, into);
  return {};
}

}  // namespace foreload
