// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/color_ops.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "foreload/decode/colors.h"

namespace foreload {
namespace {

uint32_t grey_at(const uint8_t* pixel) {
  return grey_of(pixel[0], pixel[1], pixel[2]);
}

// Pillow's Image.blend: in single precision, truncated, and cut off to 0 and 255 beyond the two.
uint8_t blend(int plain, int value, float factor) {
  const float mixed = static_cast<float>(plain) + factor * static_cast<float>(value - plain);
  return static_cast<uint8_t>(static_cast<int>(std::min(std::max(mixed, 0.0f), 255.0f)));
}

using Table = std::array<uint8_t, 256>;

Table blend_table(int plain, float factor) {
  Table table;
  for (int value = 0; value < 256; ++value) table[value] = blend(plain, value, factor);
  return table;
}

void look_up(const Table& table, PixelBuffer& pixels) {
  const size_t bytes = size_t{pixels.size().width} * pixels.channels();
  for (uint32_t y = 0; y < pixels.size().height; ++y) {
    uint8_t* row = pixels.row(y);
    for (size_t i = 0; i < bytes; ++i) row[i] = table[row[i]];
  }
}

// The mean of the grey form, rounded as Pillow's ImageEnhance.Contrast does.
int mean_grey(PixelBuffer& pixels) {
  const ImageSize size = pixels.size();
  uint64_t sum = 0;
  for (uint32_t y = 0; y < size.height; ++y) {
    const uint8_t* row = pixels.row(y);
    uint32_t of_row = 0;
    if (pixels.channels() == 1) {
      for (uint32_t x = 0; x < size.width; ++x) of_row += row[x];
    } else {
      for (uint32_t x = 0; x < size.width; ++x) of_row += grey_at(row + size_t{3} * x);
    }
    sum += of_row;
  }
  const double count = static_cast<double>(size.width) * size.height;
  return static_cast<int>(static_cast<double>(sum) / count + 0.5);
}

void saturate(float factor, PixelBuffer& pixels) {
  if (pixels.channels() == 1) return;  // grey already: both images are the same
  // Loops of a fixed length, over the end of the row too, are ones that compilers vectorise. They
  // touch up to 15 pixels after it, fewer than the 64 bytes that a PixelBuffer has there.
  constexpr size_t kAtOnce = 16;
  for (uint32_t y = 0; y < pixels.size().height; ++y) {
    uint8_t* pixel = pixels.row(y);
    for (uint32_t x = 0; x < pixels.size().width; x += kAtOnce, pixel += 3 * kAtOnce) {
      std::array<uint8_t, 3 * kAtOnce> grey;
      for (size_t i = 0; i < kAtOnce; ++i) {
        const auto value = static_cast<uint8_t>(grey_at(pixel + 3 * i));
        grey[3 * i] = grey[3 * i + 1] = grey[3 * i + 2] = value;
      }
      for (size_t i = 0; i < 3 * kAtOnce; ++i) pixel[i] = blend(grey[i], pixel[i], factor);
    }
  }
}

// Pillow's way to hue, saturation and value, in its mixture of single and double precision.
std::array<uint8_t, 3> hsv_of(const uint8_t* rgb) {
  const uint8_t red = rgb[0], green = rgb[1], blue = rgb[2];
  const uint8_t most = std::max({red, green, blue});
  const uint8_t least = std::min({red, green, blue});
  if (most == least) return {0, 0, most};
  const auto range = static_cast<float>(most - least);
  const float saturation = range / static_cast<float>(most);
  const float from_red = static_cast<float>(most - red) / range;
  const float from_green = static_cast<float>(most - green) / range;
  const float from_blue = static_cast<float>(most - blue) / range;
  float hue;
  if (red == most) {
    hue = from_blue - from_green;
  } else if (green == most) {
    hue = static_cast<float>(2.0 + from_red - from_blue);
  } else {
    hue = static_cast<float>(4.0 + from_green - from_red);
  }
  const double turns = hue / 6.0 + 1.0;  // in (0.8, 1.9)
  hue = static_cast<float>(turns >= 1.0 ? turns - 1.0 : turns);
  return {static_cast<uint8_t>(std::clamp(static_cast<int>(hue * 255.0), 0, 255)),
          static_cast<uint8_t>(std::clamp(static_cast<int>(saturation * 255.0), 0, 255)), most};
}

// Back, with what depends on one of the three looked up.
class RgbOfHsv {
 public:
  RgbOfHsv() {
    for (int value = 0; value < 256; ++value) {
      const auto at = static_cast<size_t>(value);
      const double sixths = static_cast<float>(value) * 6.0 / 255.0;
      const int whole = static_cast<int>(sixths);
      sectors_[at] = static_cast<uint8_t>(whole % 6);
      rests_[at] = static_cast<float>(sixths - static_cast<float>(whole));
      strengths_[at] = static_cast<float>(static_cast<float>(value) / 255.0);
    }
  }

  void write(uint8_t h, uint8_t s, uint8_t v, uint8_t* rgb) const {
    if (s == 0) {
      rgb[0] = rgb[1] = rgb[2] = v;
      return;
    }
    const float strength = strengths_[s];
    const float rest = rests_[h];
    // Single precision where both factors are, double where one is.
    const uint8_t p = rounded(v * (1.0 - strength));
    const uint8_t q = rounded(v * (1.0 - strength * rest));
    const uint8_t t = rounded(v * (1.0 - strength * (1.0 - rest)));
    const std::array<uint8_t, 4> values{v, p, q, t};
    constexpr std::array<std::array<uint8_t, 3>, 6> kPlaces{
        {{0, 3, 1}, {2, 0, 1}, {1, 0, 3}, {1, 2, 0}, {3, 1, 0}, {0, 1, 2}}};
    const auto& places = kPlaces[sectors_[h]];
    for (size_t i = 0; i < 3; ++i) rgb[i] = values[places[i]];
  }

 private:
  // Halves away from zero. REQUIRES: 0 <= value <= 255.
  static uint8_t rounded(double value) {
    const int whole = static_cast<int>(value);
    return static_cast<uint8_t>(value - whole >= 0.5 ? whole + 1 : whole);
  }

  std::array<uint8_t, 256> sectors_;
  std::array<float, 256> rests_;
  std::array<float, 256> strengths_;
};

// `factor` is a share of a turn; torchvision adds it to hues of 8 bits, which wrap around.
void turn_hues(double factor, PixelBuffer& pixels) {
  if (pixels.channels() == 1) return;
  const auto shift = static_cast<uint8_t>(static_cast<int32_t>(factor * 255));
  const RgbOfHsv back;
  for (uint32_t y = 0; y < pixels.size().height; ++y) {
    uint8_t* pixel = pixels.row(y);
    for (uint32_t x = 0; x < pixels.size().width; ++x, pixel += 3) {
      const auto [h, s, v] = hsv_of(pixel);
      back.write(static_cast<uint8_t>(h + shift), s, v, pixel);
    }
  }
}

using Histogram = std::array<uint64_t, 256>;

// A table for each channel, of its histogram.
template <class Make>
void look_up_by_channel(PixelBuffer& pixels, Make make) {
  const uint32_t channels = pixels.channels();
  const ImageSize size = pixels.size();
  std::array<Histogram, 3> histograms{};
  for (uint32_t y = 0; y < size.height; ++y) {
    const uint8_t* value = pixels.row(y);
    for (uint32_t x = 0; x < size.width; ++x) {
      for (uint32_t c = 0; c < channels; ++c) ++histograms[c][*value++];
    }
  }
  std::array<Table, 3> tables;
  for (uint32_t c = 0; c < channels; ++c) tables[c] = make(histograms[c]);
  for (uint32_t y = 0; y < size.height; ++y) {
    uint8_t* value = pixels.row(y);
    for (uint32_t x = 0; x < size.width; ++x) {
      for (uint32_t c = 0; c < channels; ++c, ++value) *value = tables[c][*value];
    }
  }
}

Table unchanged() {
  Table table;
  for (size_t value = 0; value < table.size(); ++value) table[value] = static_cast<uint8_t>(value);
  return table;
}

Table stretched(const Histogram& histogram) {
  int low = 0;
  int high = 255;
  while (low < 255 && histogram[static_cast<size_t>(low)] == 0) ++low;
  while (high > 0 && histogram[static_cast<size_t>(high)] == 0) --high;
  if (high <= low) return unchanged();
  const double scale = 255.0 / (high - low);
  const double offset = -low * scale;
  Table table;
  for (int value = 0; value < 256; ++value) {
    const int made = static_cast<int>(value * scale + offset);
    table[static_cast<size_t>(value)] = static_cast<uint8_t>(std::clamp(made, 0, 255));
  }
  return table;
}

Table equalized(const Histogram& histogram) {
  uint64_t sum = 0;
  uint64_t last = 0;
  unsigned used = 0;
  for (const uint64_t count : histogram) {
    if (count == 0) continue;
    sum += count;
    last = count;
    ++used;
  }
  const uint64_t step = (sum - last) / 255;
  if (used <= 1 || step == 0) return unchanged();
  Table table;
  uint64_t before = step / 2;
  for (size_t value = 0; value < table.size(); ++value) {
    table[value] = static_cast<uint8_t>(std::min<uint64_t>(before / step, 255));
    before += histogram[value];
  }
  return table;
}

}  // namespace

ColorTable ColorTable::inverted() {
  ColorTable table;
  for (size_t value = 0; value < 256; ++value)
    table.values[value] = static_cast<uint8_t>(255 - value);
  return table;
}

ColorTable ColorTable::posterized(unsigned bits) {
  ColorTable table;
  const auto mask = static_cast<uint8_t>(0xff << (8 - bits));
  for (size_t value = 0; value < 256; ++value)
    table.values[value] = static_cast<uint8_t>(value & mask);
  return table;
}

ColorTable ColorTable::solarized(double threshold) {
  ColorTable table;
  for (int value = 0; value < 256; ++value)
    table.values[static_cast<size_t>(value)] =
        static_cast<uint8_t>(value < threshold ? value : 255 - value);
  return table;
}

void apply_colors(const JitterDraw& jitter, PixelBuffer& pixels) {
  for (const uint8_t which : jitter.order) {
    const auto factor = static_cast<float>(jitter.factors[which]);
    if (which == 3) {
      if (jitter.hue) turn_hues(jitter.factors[3], pixels);
    } else if (factor == 1.0f) {
      continue;
    } else if (which == 0) {
      look_up(blend_table(0, factor), pixels);
    } else if (which == 1) {
      look_up(blend_table(mean_grey(pixels), factor), pixels);
    } else {
      saturate(factor, pixels);
    }
  }
}

void apply_colors(const ColorTable& table, PixelBuffer& pixels) {
  look_up(table.values, pixels);
}

void apply_colors(const AutoContrast&, PixelBuffer& pixels) {
  look_up_by_channel(pixels, stretched);
}

void apply_colors(const Equalize&, PixelBuffer& pixels) {
  look_up_by_channel(pixels, equalized);
}

void make_picture(const Grey& op, PixelBuffer& in, PixelBuffer& out) {
  const auto [width, height] = in.size();
  out.reset(in.size(), op.channels);
  for (uint32_t y = 0; y < height; ++y) {
    const uint8_t* from = in.row(y);
    uint8_t* to = out.row(y);
    for (uint32_t x = 0; x < width; ++x, from += in.channels()) {
      const uint8_t grey = in.channels() == 1 ? *from : static_cast<uint8_t>(grey_at(from));
      for (uint32_t c = 0; c < op.channels; ++c) *to++ = grey;
    }
  }
}

void make_picture(const Sharpen& op, PixelBuffer& in, PixelBuffer& out) {
  const auto [width, height] = in.size();
  const uint32_t channels = in.channels();
  const size_t row_bytes = size_t{width} * channels;
  const auto factor = static_cast<float>(op.factor);
  // Pillow's SMOOTH filter: the middle counts five times, of 13. Edges are left alone.
  const float corner = 1.0f / 13.0f;
  const float middle = 5.0f / 13.0f;
  out.reset(in.size(), channels);
  for (uint32_t y = 0; y < height; ++y) {
    const uint8_t* here = in.row(y);
    uint8_t* to = out.row(y);
    std::memcpy(to, here, row_bytes);
    if (y == 0 || y + 1 >= height || factor == 1.0f) continue;
    const uint8_t* above = in.row(y - 1);
    const uint8_t* below = in.row(y + 1);
    for (size_t i = channels; i + channels < row_bytes; ++i) {
      const auto three = [i, channels, corner](const uint8_t* row, float weight) {
        return static_cast<float>(row[i - channels]) * corner +
               static_cast<float>(row[i]) * weight + static_cast<float>(row[i + channels]) * corner;
      };
      float sum = 0.5f;
      sum += three(below, corner);
      sum += three(here, middle);
      sum += three(above, corner);
      const int smooth = static_cast<int>(std::min(std::max(sum, 0.0f), 255.0f));
      to[i] = blend(smooth, here[i], factor);
    }
  }
}

}  // namespace foreload
