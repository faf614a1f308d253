// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/png_colors.h"

#include <algorithm>
#include <cstring>

#include "foreload/decode/colors.h"

namespace foreload {
namespace {

constexpr size_t kEntries = 256;

uint16_t png_word(const uint8_t* bytes, size_t number) {
  return static_cast<uint16_t>(bytes[2 * number] << 8 | bytes[2 * number + 1]);
}

tl::unexpected<Error> png_useless(const char* what) {
  return fail(ErrorKind::invalid, std::string("corrupt PNG image: ") + what + "; save it anew");
}

}  // namespace

Result<PngColors> PngColors::make(const PngChunks& chunks, const DecodeOptions& options) {
  PngColors colors;
  colors.layout_ = chunks.layout();
  colors.mode_ = options.mode;
  colors.wide_ = options.wide;
  colors.transparency_ = chunks.transparency();
  const PngLayout& layout = colors.layout_;
  const PngTransparency& transparency = colors.transparency_;
  if (layout.depth < 8)
    colors.grey_factor_ = static_cast<uint16_t>(255 / ((1 << layout.depth) - 1));
  if (layout.color != PngLayout::palette) return colors;

  colors.palette_.fill({0, 0, 0, 255});
  if (const auto& palette = chunks.palette()) {
    const size_t count = palette->size() / 3;
    if (count > kEntries) return png_useless("a palette of more than 256 colours");
    for (size_t i = 0; i < count; ++i) std::memcpy(&colors.palette_[i], &(*palette)[3 * i], 3);
  }
  if (options.mode == ColorMode::rgba) {
    if (transparency.values.size() > kEntries || transparency.entry >= kEntries)
      return png_useless("transparency of more than 256 colours");
    for (size_t i = 0; i < transparency.values.size(); ++i)
      colors.palette_[i][3] = std::to_integer<uint8_t>(transparency.values[i]);
    if (transparency.kind == PngTransparency::index) colors.palette_[transparency.entry][3] = 0;
  } else if (transparency.kind == PngTransparency::index && !chunks.palette()) {
    return png_useless("transparency of a palette that is not there");
  }
  return colors;
}

PngColors::Color PngColors::narrow(const uint8_t* sample) const {
  const size_t high = layout_.depth == 16 ? 2 : 1;  // from one high byte to the next
  Color color{};
  switch (layout_.color) {
    case PngLayout::grey:
      color.red = static_cast<uint16_t>(sample[0] * grey_factor_);
      if (layout_.depth == 16) color.red = sample[0] != 0 ? 255 : sample[1];
      color = {color.red, color.red, color.red, 255};
      break;
    case PngLayout::rgb:
      color = {sample[0], sample[high], sample[2 * high], 255};
      break;
    case PngLayout::palette: {
      const auto& entry = palette_[sample[0]];
      return {entry[0], entry[1], entry[2], entry[3]};
    }
    case PngLayout::grey_alpha:
      return {sample[0], sample[0], sample[0], sample[high]};
    case PngLayout::rgba:
      return {sample[0], sample[high], sample[2 * high], sample[3 * high]};
  }
  if (transparency_.kind != PngTransparency::color) return color;
  const auto same = [](uint16_t declared, uint16_t value) { return (declared & 0xFF) == value; };
  const bool transparent = layout_.depth == 1 ? (transparency_.red != 0) == (color.red != 0)
                                              : same(transparency_.red, color.red) &&
                                                    same(transparency_.green, color.green) &&
                                                    same(transparency_.blue, color.blue);
  if (transparent) color.alpha = 0;
  return color;
}

PngColors::Color PngColors::wide(const uint8_t* sample) const {
  if (layout_.depth != 16) {
    Color color = narrow(sample);
    if (transparency_.kind == PngTransparency::color && layout_.depth < 8) {
      const unsigned mask = (1u << layout_.depth) - 1;
      color.alpha = (transparency_.red & mask) == sample[0] ? 0 : 255;
    }
    for (uint16_t* value : {&color.red, &color.green, &color.blue, &color.alpha})
      *value = static_cast<uint16_t>(*value * 257);
    return color;
  }
  const uint32_t channels = layout_.channels();
  const bool colored = channels > 2;
  Color color{png_word(sample, 0), png_word(sample, colored ? 1 : 0),
              png_word(sample, colored ? 2 : 0), 0xFFFF};
  if (channels % 2 == 0) {
    color.alpha = png_word(sample, channels - 1);
  } else if (transparency_.kind == PngTransparency::color && transparency_.red == color.red &&
             transparency_.green == color.green && transparency_.blue == color.blue) {
    color.alpha = 0;
  }
  return color;
}

template <class ColorAt>
void PngColors::convert_by(const uint8_t* samples, uint32_t pixels, uint8_t* out,
                           const ColorAt& color_at) const {
  const size_t step = sample_bytes();
  const auto put = [&](uint16_t value) {
    if (wide_) {
      std::memcpy(out, &value, 2);
      out += 2;
    } else {
      *out++ = static_cast<uint8_t>(value);
    }
  };
  for (uint32_t x = 0; x < pixels; ++x, samples += step) {
    const Color color = color_at(samples);
    if (mode_ == ColorMode::grey) {
      // Pillow's weights.
      put(static_cast<uint16_t>(
          (color.red * 19595u + color.green * 38470u + color.blue * 7471u + 0x8000u) >> 16));
      continue;
    }
    put(color.red);
    put(color.green);
    put(color.blue);
    if (mode_ == ColorMode::rgba) put(color.alpha);
  }
}

void PngColors::convert(const uint8_t* samples, uint32_t pixels, uint8_t* out) const {
  const bool plain = layout_.depth == 8 && !wide_;
  const bool opaque = transparency_.kind == PngTransparency::none || mode_ != ColorMode::rgba;
  if (plain && opaque && layout_.color == PngLayout::rgb && mode_ == ColorMode::rgb) {
    std::memcpy(out, samples, size_t{3} * pixels);
  } else if (plain && layout_.color == PngLayout::rgb && mode_ == ColorMode::grey) {
    rgb_to_grey(samples, pixels, out);
  } else if (plain && layout_.color == PngLayout::rgba && mode_ == ColorMode::rgba) {
    std::memcpy(out, samples, size_t{4} * pixels);
  } else if (plain && layout_.color == PngLayout::rgba && mode_ == ColorMode::rgb) {
    for (uint32_t x = 0; x < pixels; ++x, samples += 4, out += 3) std::memcpy(out, samples, 3);
  } else if (plain && layout_.color == PngLayout::grey && mode_ == ColorMode::grey) {
    std::memcpy(out, samples, pixels);
  } else if (wide_) {
    convert_by(samples, pixels, out, [this](const uint8_t* sample) { return wide(sample); });
  } else {
    convert_by(samples, pixels, out, [this](const uint8_t* sample) { return narrow(sample); });
  }
}

}  // namespace foreload
