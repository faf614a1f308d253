// SPDX-License-Identifier: Apache-2.0
#include "foreload/photos/photo.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <vector>

#include "foreload/base/random.h"

namespace foreload {
namespace {

// Only sums, products and comparisons below: functions of the C library may differ in the last bit
// from one processor to the next.

constexpr int kThings = 26;
constexpr float kLuma = 18;          // strength of brightness in the coarsest octave, grey levels
constexpr float kFinerLuma = 0.95f;  // of it, each octave over the one before
constexpr float kChroma = 8;

using Color = std::array<float, 3>;

// Numbers in [0, 1), one after the other.
class Draws {
 public:
  Draws(uint64_t key, uint64_t stream) : key_(key), stream_(stream) {}
  float unit() {
    if (used_ % 4 == 0) block_ = philox(key_, used_ / 4, stream_);
    return static_cast<float>(block_[used_++ % 4] >> 8) * 0x1p-24f;
  }
  float between(float low, float high) { return low + (high - low) * unit(); }
  Color color(float low, float high) {
    Color color;
    for (float& channel : color) channel = between(low, high);
    return color;
  }
  // A direction, as (cosine, sine) of some angle.
  std::array<float, 2> direction() {
    const float t = between(-1, 1);
    return {(1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)};
  }

 private:
  uint64_t key_;
  uint64_t stream_;
  uint64_t used_ = 0;
  std::array<uint32_t, 4> block_{};
};

// A grid of heights.
struct Field {
  uint32_t width = 0;
  uint32_t height = 0;
  std::vector<float> values;

  float* row(uint32_t y) { return values.data() + size_t{y} * width; }
  const float* row(uint32_t y) const { return values.data() + size_t{y} * width; }
};

// Noise of the given strength on every point, four points from one scrambled word.
void roughen(Field& field, uint64_t key, float strength) {
  const float scale = strength * 2 * 0x1p-16f;
  for (uint32_t y = 0; y < field.height; ++y) {
    float* const row = field.row(y);
    for (uint32_t x = 0; x < field.width; x += 4) {
      uint64_t word = mix64(key + (uint64_t{y} << 32 | x) * 0x9e3779b97f4a7c15u);
      for (uint32_t i = x; i < std::min(x + 4, field.width); ++i, word >>= 16) {
        row[i] += (static_cast<float>(word & 0xffff) - 0x8000) * scale;
      }
    }
  }
}

// Twice as fine, straight lines between the points; `width` and `height` are those of the result.
Field refine(const Field& coarse, uint32_t width, uint32_t height) {
  assert(width / 2 < coarse.width && height / 2 < coarse.height);
  Field fine{width, height, std::vector<float>(size_t{width} * height)};
  std::vector<float> between(coarse.width);
  for (uint32_t y = 0; y < height; ++y) {
    const float* const above = coarse.row(y / 2);
    const float* const below = coarse.row(y / 2 + y % 2);
    for (uint32_t x = 0; x < coarse.width; ++x) between[x] = (above[x] + below[x]) * 0.5f;
    float* const row = fine.row(y);
    for (uint32_t x = 0; x < width / 2; ++x) {
      row[2 * x] = between[x];
      row[2 * x + 1] = (between[x] + between[x + 1]) * 0.5f;
    }
    if (width % 2 != 0) row[width - 1] = between[width / 2];
  }
  return fine;
}

// Octaves of noise from a handful of points to one point a pixel, or, with `smooth`, so many
// octaves less.
Field texture(ImageSize size, uint64_t key, float strength, float finer, int smooth) {
  // Each level has the points its finer neighbour needs, and one more.
  const int levels =
      std::max(1, static_cast<int>(std::bit_width(std::max(size.width, size.height) / 3)));
  const auto points = [](uint32_t side, int level) { return (side >> level) + 3; };
  Field field{points(size.width, levels), points(size.height, levels), {}};
  field.values.resize(size_t{field.width} * field.height);
  roughen(field, mix64(key), strength);
  for (int level = levels - 1; level >= 0; --level) {
    strength *= finer;
    field = level == 0 ? refine(field, size.width, size.height)
                       : refine(field, points(size.width, level), points(size.height, level));
    if (level >= smooth) roughen(field, mix64(key + static_cast<uint64_t>(level) + 1), strength);
  }
  return field;
}

// What photos of one subject have in common.
struct Subject {
  std::array<Color, 4> colors;
  std::array<float, 2> stripes;  // their direction
  float stripe_width;            // as a share of the shorter side
  float stripe_strength;

  explicit Subject(uint64_t number) {
    Draws draws(number, 1);
    for (Color& color : colors) color = draws.color(30, 225);
    stripes = draws.direction();
    stripe_width = draws.between(0.02f, 0.08f);
    stripe_strength = draws.between(10, 40);
  }
};

// An ellipse with a colour, a roughness and, maybe, stripes.
struct Thing {
  float x, y, a, b;
  std::array<float, 2> turn;
  float sharpness;             // share of the way from outside to inside that one pixel makes
  std::array<float, 4> paint;  // colour and roughness
  float stripe_strength;
};

Thing draw_thing(Draws& draws, const Subject& subject, float width, float height) {
  Thing thing;
  const float shorter = std::min(width, height);
  // Radii by a power law: few large ones, many small ones.
  const float radius = 0.05f * shorter / std::sqrt(draws.between(0.012f, 1));
  thing.x = draws.between(0, width);
  thing.y = draws.between(0, height);
  thing.a = std::max(radius, 1.0f);
  thing.b = std::max(radius * draws.between(0.35f, 1), 1.0f);
  thing.turn = draws.direction();
  thing.sharpness = 1 / draws.between(0.7f, 3);
  const float of_subject = draws.unit();
  Color color = draws.color(20, 235);
  const auto which = static_cast<size_t>(draws.unit() * 4);
  const Color shade = draws.color(-25, 25);
  thing.stripe_strength = 0;
  if (of_subject < 0.65f) {
    for (size_t c = 0; c < 3; ++c) color[c] = subject.colors[which][c] + shade[c];
    thing.stripe_strength = subject.stripe_strength;
  }
  thing.paint = {color[0], color[1], color[2], draws.between(0.35f, 1.65f)};
  return thing;
}

// Colour and roughness of every pixel, before texture.
class Canvas {
 public:
  Canvas(ImageSize size, const Color& top, const Color& bottom)
      : size_(size), pixels_(size_t{size.width} * size.height) {
    for (uint32_t y = 0; y < size.height; ++y) {
      const float share = static_cast<float>(y) / static_cast<float>(size.height);
      std::array<float, 4> paint{0, 0, 0, 1};
      for (size_t c = 0; c < 3; ++c) paint[c] = top[c] + (bottom[c] - top[c]) * share;
      std::fill_n(row(y), size.width, paint);
    }
  }

  std::array<float, 4>* row(uint32_t y) { return pixels_.data() + size_t{y} * size_.width; }

  void put(const Thing& thing, const Subject& subject) {
    const float shorter = static_cast<float>(std::min(size_.width, size_.height));
    const float stripe = 1 / std::max(2.0f, subject.stripe_width * shorter);
    const float edge = 0.5f * std::min(thing.a, thing.b) * thing.sharpness;
    const auto reach = [](float centre, float radius, uint32_t side) {
      const auto limit = [side](float at) {
        return static_cast<uint32_t>(std::clamp(at, 0.0f, static_cast<float>(side)));
      };
      return std::array{limit(centre - radius), limit(centre + radius + 1)};
    };
    const auto [left, right] = reach(thing.x, thing.a + 2, size_.width);
    const auto [top, bottom] = reach(thing.y, thing.a + 2, size_.height);
    for (uint32_t y = top; y < bottom; ++y) {
      std::array<float, 4>* const pixels = row(y);
      const float down = static_cast<float>(y) - thing.y;
      for (uint32_t x = left; x < right; ++x) {
        const float across = static_cast<float>(x) - thing.x;
        const float u = (across * thing.turn[0] + down * thing.turn[1]) / thing.a;
        const float v = (down * thing.turn[0] - across * thing.turn[1]) / thing.b;
        const float cover = (1 - u * u - v * v) * edge + 0.5f;
        if (cover <= 0) continue;
        const float share = std::min(cover, 1.0f);
        const float along = (across * subject.stripes[0] + down * subject.stripes[1]) * stripe;
        const float wave = std::abs(along - std::floor(along) - 0.5f) * 4 - 1;
        const float light = wave * thing.stripe_strength;
        for (size_t c = 0; c < 4; ++c) {
          const float wanted = thing.paint[c] + (c < 3 ? light : 0);
          pixels[x][c] += (wanted - pixels[x][c]) * share;
        }
      }
    }
  }

 private:
  ImageSize size_;
  std::vector<std::array<float, 4>> pixels_;
};

}  // namespace

void make_photo(ImageSize size, uint64_t seed, uint64_t subject_number, PixelBuffer& pixels) {
  assert(size.width > 0 && size.height > 0);
  const Subject subject(subject_number);
  Draws draws(seed, 2);
  Canvas canvas(size, subject.colors[static_cast<size_t>(draws.unit() * 4)], draws.color(40, 215));
  for (int i = 0; i < kThings; ++i) {
    canvas.put(
        draw_thing(draws, subject, static_cast<float>(size.width), static_cast<float>(size.height)),
        subject);
  }
  const Field light = texture(size, mix64(seed ^ 1), kLuma, kFinerLuma, 0);
  const Field reddish = texture(size, mix64(seed ^ 2), kChroma, 0.8f, 1);
  const Field bluish = texture(size, mix64(seed ^ 3), kChroma, 0.8f, 1);
  pixels.reset(size, 3);
  for (uint32_t y = 0; y < size.height; ++y) {
    uint8_t* out = pixels.row(y);
    const std::array<float, 4>* const painted = canvas.row(y);
    const float* const l = light.row(y);
    const float* const r = reddish.row(y);
    const float* const b = bluish.row(y);
    for (uint32_t x = 0; x < size.width; ++x) {
      const std::array<float, 4>& paint = painted[x];
      const float grey = l[x] * paint[3];
      const Color color{paint[0] + grey + r[x], paint[1] + grey - (r[x] + b[x]) * 0.3f,
                        paint[2] + grey + b[x]};
      for (const float channel : color) {
        *out++ = static_cast<uint8_t>(std::clamp(channel + 0.5f, 0.0f, 255.0f));
      }
    }
  }
}

}  // namespace foreload
