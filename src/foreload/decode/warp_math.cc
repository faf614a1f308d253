// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/warp_math.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "foreload/base/wide.h"

namespace foreload {
namespace {

double radians(double degrees) {
  return degrees * (std::numbers::pi / 180.0);
}

// Python's round(value, 15) for |value| <= 1: the nearest decimal, ties to even. The decimal times
// 10^15 is a whole number that a double holds, so that one division gives the nearest double.
double rounded_to_15_digits(double value) {
  constexpr uint64_t kScale = 1'000'000'000'000'000;
  int exponent = 0;
  const double fraction = std::frexp(std::abs(value), &exponent);  // in [0.5, 1)
  const int shift = 53 - exponent;                                 // value = mantissa / 2^shift
  if (shift > 110) return std::copysign(0.0, value);
  const auto product = uint128_t{static_cast<uint64_t>(std::ldexp(fraction, 53))} * kScale;
  const uint128_t half = uint128_t{1} << (shift - 1);
  uint128_t whole = product >> shift;
  const uint128_t rest = product - (whole << shift);
  if (rest > half || (rest == half && (whole & 1) == 1)) ++whole;
  const double scaled = static_cast<double>(static_cast<uint64_t>(whole));
  return std::copysign(scaled / static_cast<double>(kScale), value);
}

Point mapped(const AffineMatrix& m, double x, double y) {
  return {m[0] * x + m[1] * y + m[2], m[3] * x + m[4] * y + m[5]};
}

uint32_t span_of(const std::array<double, 4>& values) {
  const auto [least, most] = std::ranges::minmax(values);
  return static_cast<uint32_t>(std::clamp(std::ceil(most) - std::floor(least), 0.0, 4e9));
}

}  // namespace

AffineMatrix inverse_affine(const AffineDraw& draw, const Point& center, bool first_generation) {
  const double rot = radians(draw.angle);
  const double sx = radians(draw.shear[0]);
  const double sy = radians(draw.shear[1]);
  const auto [cx, cy] = center;
  const auto [tx, ty] = draw.translate;
  const double a = std::cos(rot - sy) / std::cos(sy);
  const double c = std::sin(rot - sy) / std::cos(sy);
  if (first_generation) {
    const double b = -std::cos(rot - sy) * std::tan(sx) / std::cos(sy) - std::sin(rot);
    const double d = -std::sin(rot - sy) * std::tan(sx) / std::cos(sy) + std::cos(rot);
    AffineMatrix m{d, -b, 0.0, -c, a, 0.0};
    for (double& value : m) value /= draw.scale;
    m[2] += m[0] * (-cx - tx) + m[1] * (-cy - ty);
    m[5] += m[3] * (-cx - tx) + m[4] * (-cy - ty);
    m[2] += cx;
    m[5] += cy;
    return m;
  }
  const double b = -(a * std::tan(sx) + std::sin(rot));
  const double d = std::cos(rot) - c * std::tan(sx);
  AffineMatrix m{d / draw.scale, -b / draw.scale, 0.0, -c / draw.scale, a / draw.scale, 0.0};
  m[2] += cx - m[0] * (cx + tx) - m[1] * (cy + ty);
  m[5] += cy - m[3] * (cx + tx) - m[4] * (cy + ty);
  return m;
}

Rotation rotation(ImageSize image, double degrees, bool expand,
                  const std::optional<Point>& center) {
  double angle = std::fmod(degrees, 360.0);
  if (angle < 0) angle += 360.0;
  const bool square = image.width == image.height;
  if (!center) {
    if (angle == 0 || angle == 180 || ((angle == 90 || angle == 270) && (expand || square))) {
      const auto quarters = static_cast<unsigned>(angle / 90);
      const ImageSize turned{image.height, image.width};
      return {.quarters = quarters, .size = quarters % 2 == 1 ? turned : image};
    }
  }
  const Point middle = center.value_or(Point{image.width / 2.0, image.height / 2.0});
  const double turn = -radians(angle);
  Rotation made{.size = image};
  AffineMatrix& m = made.matrix;
  m = {rounded_to_15_digits(std::cos(turn)),  rounded_to_15_digits(std::sin(turn)), 0.0,
       rounded_to_15_digits(-std::sin(turn)), rounded_to_15_digits(std::cos(turn)), 0.0};
  const Point origin = mapped(m, -middle[0], -middle[1]);
  m[2] = origin[0] + middle[0];
  m[5] = origin[1] + middle[1];
  if (!expand) return made;
  const double width = image.width;
  const double height = image.height;
  const std::array<Point, 4> corners{mapped(m, 0, 0), mapped(m, width, 0), mapped(m, width, height),
                                     mapped(m, 0, height)};
  std::array<double, 4> x{};
  std::array<double, 4> y{};
  for (size_t i = 0; i < 4; ++i) {
    x[i] = corners[i][0];
    y[i] = corners[i][1];
  }
  made.size = {span_of(x), span_of(y)};
  const Point moved =
      mapped(m, -(made.size.width - width) / 2.0, -(made.size.height - height) / 2.0);
  m[2] = moved[0];
  m[5] = moved[1];
  return made;
}

std::array<double, 8> perspective_coefficients(const std::array<Point, 4>& start,
                                               const std::array<Point, 4>& end) {
  // Gauss with pivots, in more bits than the result has.
  std::array<std::array<long double, 9>, 8> rows{};
  for (size_t i = 0; i < 4; ++i) {
    const auto [x, y] = end[i];
    const auto [u, v] = start[i];
    rows[2 * i] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
    rows[2 * i + 1] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
  }
  for (size_t column = 0; column < 8; ++column) {
    size_t best = column;
    for (size_t row = column + 1; row < 8; ++row) {
      if (std::abs(rows[row][column]) > std::abs(rows[best][column])) best = row;
    }
    std::swap(rows[column], rows[best]);
    if (rows[column][column] == 0) continue;  // corners on one line: the image is gone anyway
    for (size_t row = 0; row < 8; ++row) {
      if (row == column) continue;
      const long double factor = rows[row][column] / rows[column][column];
      for (size_t k = column; k < 9; ++k) rows[row][k] -= factor * rows[column][k];
    }
  }
  std::array<double, 8> coefficients{};
  for (size_t i = 0; i < 8; ++i) {
    const long double divisor = rows[i][i] == 0 ? 1 : rows[i][i];
    coefficients[i] = static_cast<double>(static_cast<float>(rows[i][8] / divisor));
  }
  return coefficients;
}

double linspace_from_zero(double end, unsigned count, unsigned index) {
  const auto last = static_cast<float>(end);
  const float step = last / static_cast<float>(count - 1);
  if (index < count / 2) return step * static_cast<float>(index);
  // torch rounds the difference only.
  return static_cast<float>(double{last} - double{step} * (count - 1 - index));
}

}  // namespace foreload
