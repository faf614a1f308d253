// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/warp.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace foreload {
namespace {

// Below zero is outside, whatever it is.
int whole(double value) {
  return value < 0.0 ? -1 : static_cast<int>(std::min(value, 2e9));
}

int floor_of(double value) {
  return static_cast<int>(value < 0.0 ? std::floor(value) : value);
}

// `Source` is a picture with a fixed number of channels, which compilers make good loops of.
template <uint32_t kChannels>
struct Source {
  PixelView view;
  int width = static_cast<int>(view.size.width);
  int height = static_cast<int>(view.size.height);

  bool has(double x, double y) const { return x >= 0.0 && x < width && y >= 0.0 && y < height; }
  const uint8_t* row(int y) const {
    return view.row(static_cast<uint32_t>(std::clamp(y, 0, height - 1)));
  }
  size_t column(int x) const {
    return static_cast<size_t>(std::clamp(x, 0, width - 1)) * kChannels;
  }
  void copy(int x, int y, uint8_t* to) const {
    std::memcpy(to, view.row(static_cast<uint32_t>(y)) + static_cast<size_t>(x) * kChannels,
                kChannels);
  }

  void nearest(double x, double y, uint8_t* to) const {
    const int column = whole(x);
    const int row = whole(y);
    if (column >= 0 && column < width && row >= 0 && row < height) copy(column, row, to);
  }

  void bilinear(double x, double y, uint8_t* to) const {
    if (!has(x, y)) return;
    x -= 0.5;
    y -= 0.5;
    const int left = floor_of(x);
    const int top = floor_of(y);
    const double dx = x - left;
    const double dy = y - top;
    const size_t x0 = column(left);
    const size_t x1 = column(left + 1);
    const uint8_t* upper = row(top);
    const uint8_t* lower = row(top + 1);
    for (uint32_t c = 0; c < kChannels; ++c) {
      const auto along = [&](const uint8_t* at) {
        return at[x0 + c] + (at[x1 + c] - at[x0 + c]) * dx;
      };
      const double v1 = along(upper);
      const double v2 = top + 1 < height ? along(lower) : v1;
      to[c] = static_cast<uint8_t>(v1 + (v2 - v1) * dy);
    }
  }

  static double cubic(double v1, double v2, double v3, double v4, double d) {
    const double p1 = v2;
    const double p2 = -v1 + v3;
    const double p3 = 2 * (v1 - v2) + v3 - v4;
    const double p4 = -v1 + v2 - v3 + v4;
    return p1 + d * (p2 + d * (p3 + d * p4));
  }

  void bicubic(double x, double y, uint8_t* to) const {
    if (!has(x, y)) return;
    x -= 0.5;
    y -= 0.5;
    const int left = floor_of(x) - 1;
    const int top = floor_of(y) - 1;
    const double dx = x - (left + 1);
    const double dy = y - (top + 1);
    const std::array<size_t, 4> columns{column(left), column(left + 1), column(left + 2),
                                        column(left + 3)};
    for (uint32_t c = 0; c < kChannels; ++c) {
      std::array<double, 4> v{};
      for (int i = 0; i < 4; ++i) {
        // Rows beyond the last one repeat the value before, as those above the first one do.
        if (i > 0 && (top + i < 0 || top + i >= height)) {
          v[static_cast<size_t>(i)] = v[static_cast<size_t>(i - 1)];
          continue;
        }
        const uint8_t* at = row(top + i) + c;
        v[static_cast<size_t>(i)] =
            cubic(at[columns[0]], at[columns[1]], at[columns[2]], at[columns[3]], dx);
      }
      to[c] = static_cast<uint8_t>(std::clamp(cubic(v[0], v[1], v[2], v[3], dy), 0.0, 255.0));
    }
  }
};

template <uint32_t kChannels>
void fill_with(const std::array<uint8_t, 3>& fill, PixelBuffer& out) {
  for (uint32_t y = 0; y < out.size().height; ++y) {
    uint8_t* to = out.row(y);
    for (uint32_t x = 0; x < out.size().width; ++x, to += kChannels)
      std::memcpy(to, fill.data(), kChannels);
  }
}

// Nearest pixels where columns and rows are scaled alone: positions are added up.
template <uint32_t kChannels>
void scale(const Warp& op, const Source<kChannels>& in, PixelBuffer& out) {
  const auto& a = op.matrix;
  std::vector<int> columns(op.size.width);
  // From the first to the last column that shows something, also where one between does not.
  uint32_t first = op.size.width;
  uint32_t end = 0;
  double x_at = a[2] + a[0] * 0.5;
  for (uint32_t x = 0; x < op.size.width; ++x, x_at += a[0]) {
    const int column = whole(x_at);
    if (column < 0 || column >= in.width) continue;
    end = x + 1;
    first = std::min(first, x);
    columns[x] = column;
  }
  double y_at = a[5] + a[4] * 0.5;
  for (uint32_t y = 0; y < op.size.height; ++y, y_at += a[4]) {
    const int row = whole(y_at);
    if (row < 0 || row >= in.height) continue;
    for (uint32_t x = first; x < end; ++x)
      in.copy(columns[x], row, out.row(y) + size_t{x} * kChannels);
  }
}

bool fits_fixed_point(const std::array<double, 8>& a, double x, double y) {
  return std::abs(x * a[0] + y * a[1] + a[2]) < 32768.0 &&
         std::abs(x * a[3] + y * a[4] + a[5]) < 32768.0;
}

// Nearest pixels with 16 bits after the point.
template <uint32_t kChannels>
void warp_fixed(const Warp& op, const Source<kChannels>& in, PixelBuffer& out) {
  const auto& a = op.matrix;
  // Sums wrap around as Pillow's do.
  const auto fixed = [](double value) {
    return static_cast<uint32_t>(floor_of(value * 65536.0 + 0.5));
  };
  const uint32_t a0 = fixed(a[0]), a1 = fixed(a[1]), a3 = fixed(a[3]), a4 = fixed(a[4]);
  uint32_t row_x = fixed(a[2] + a[0] * 0.5 + a[1] * 0.5);
  uint32_t row_y = fixed(a[5] + a[3] * 0.5 + a[4] * 0.5);
  for (uint32_t y = 0; y < op.size.height; ++y, row_x += a1, row_y += a4) {
    uint8_t* to = out.row(y);
    uint32_t at_x = row_x;
    uint32_t at_y = row_y;
    for (uint32_t x = 0; x < op.size.width; ++x, to += kChannels, at_x += a0, at_y += a3) {
      const int column = static_cast<int32_t>(at_x) >> 16;
      const int row = static_cast<int32_t>(at_y) >> 16;
      if (column >= 0 && column < in.width && row >= 0 && row < in.height) in.copy(column, row, to);
    }
  }
}

// The same for maps that fixed point cannot hold.
template <uint32_t kChannels>
void warp_added_up(const Warp& op, const Source<kChannels>& in, PixelBuffer& out) {
  const auto& a = op.matrix;
  double row_x = a[2] + a[1] * 0.5 + a[0] * 0.5;
  double row_y = a[5] + a[4] * 0.5 + a[3] * 0.5;
  for (uint32_t y = 0; y < op.size.height; ++y, row_x += a[1], row_y += a[4]) {
    uint8_t* to = out.row(y);
    double at_x = row_x;
    double at_y = row_y;
    for (uint32_t x = 0; x < op.size.width; ++x, to += kChannels, at_x += a[0], at_y += a[3])
      in.nearest(at_x, at_y, to);
  }
}

// Every pixel on its own.
template <uint32_t kChannels, class Sample>
void warp_each(const Warp& op, PixelBuffer& out, Sample sample) {
  const auto [a0, a1, a2, a3, a4, a5, a6, a7] = op.matrix;
  for (uint32_t y = 0; y < op.size.height; ++y) {
    uint8_t* to = out.row(y);
    const double v = y + 0.5;
    for (uint32_t x = 0; x < op.size.width; ++x, to += kChannels) {
      const double u = x + 0.5;
      if (op.perspective) {
        const double depth = a6 * u + a7 * v + 1;
        sample((a0 * u + a1 * v + a2) / depth, (a3 * u + a4 * v + a5) / depth, to);
      } else {
        sample(a0 * u + a1 * v + a2, a3 * u + a4 * v + a5, to);
      }
    }
  }
}

template <uint32_t kChannels>
void warp(const Warp& op, PixelBuffer& pixels, PixelBuffer& out) {
  const Source<kChannels> in{pixels.view()};
  const double width = op.size.width;
  const double height = op.size.height;
  const auto& a = op.matrix;
  out.reset(op.size, kChannels);
  fill_with<kChannels>(op.fill, out);
  if (op.interpolation == Interpolation::bilinear) {
    warp_each<kChannels>(op, out,
                         [&in](double x, double y, uint8_t* to) { in.bilinear(x, y, to); });
  } else if (op.interpolation == Interpolation::bicubic) {
    warp_each<kChannels>(op, out, [&in](double x, double y, uint8_t* to) { in.bicubic(x, y, to); });
  } else if (op.perspective) {
    warp_each<kChannels>(op, out, [&in](double x, double y, uint8_t* to) { in.nearest(x, y, to); });
  } else if (a[1] == 0 && a[3] == 0) {
    scale<kChannels>(op, in, out);
  } else if (fits_fixed_point(a, 0, 0) && fits_fixed_point(a, width, height) &&
             fits_fixed_point(a, 0, height) && fits_fixed_point(a, width, 0)) {
    warp_fixed<kChannels>(op, in, out);
  } else {
    warp_added_up<kChannels>(op, in, out);
  }
}

}  // namespace

void make_picture(const Warp& op, PixelBuffer& in, PixelBuffer& out) {
  if (in.channels() == 1) {
    warp<1>(op, in, out);
  } else {
    warp<3>(op, in, out);
  }
}

void make_picture(const QuarterTurns& op, PixelBuffer& in, PixelBuffer& out) {
  const auto [width, height] = in.size();
  const uint32_t channels = in.channels();
  const unsigned count = op.count % 4;
  out.reset(count % 2 == 1 ? ImageSize{height, width} : in.size(), channels);
  for (uint32_t y = 0; y < height; ++y) {
    const uint8_t* from = in.row(y);
    for (uint32_t x = 0; x < width; ++x, from += channels) {
      const uint32_t to_x = count == 0   ? x
                            : count == 1 ? y
                            : count == 2 ? width - 1 - x
                                         : height - 1 - y;
      const uint32_t to_y = count == 0   ? y
                            : count == 1 ? width - 1 - x
                            : count == 2 ? height - 1 - y
                                         : x;
      std::memcpy(out.row(to_y) + size_t{to_x} * channels, from, channels);
    }
  }
}

}  // namespace foreload
