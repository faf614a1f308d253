// SPDX-License-Identifier: Apache-2.0
#include "foreload/photos/photo.h"

#include <array>
#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "foreload/photos/jpeg_writer.h"

namespace foreload {
namespace {

PixelBuffer photo(ImageSize size, uint64_t seed, uint64_t subject) {
  PixelBuffer pixels;
  make_photo(size, seed, subject, pixels);
  return pixels;
}

bool same(PixelBuffer& a, PixelBuffer& b) {
  for (uint32_t y = 0; y < a.size().height; ++y) {
    if (std::memcmp(a.row(y), b.row(y), size_t{a.size().width} * 3) != 0) return false;
  }
  return true;
}

std::array<double, 3> mean_color(PixelBuffer& pixels) {
  std::array<double, 3> sum{};
  const auto [width, height] = pixels.size();
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width * 3; ++x) sum[x % 3] += pixels.row(y)[x];
  }
  for (double& channel : sum) channel /= static_cast<double>(size_t{width} * height);
  return sum;
}

TEST(Photo, IsAFunctionOfSizeSeedAndSubject) {
  PixelBuffer first = photo({90, 70}, 1, 2);
  PixelBuffer again = photo({90, 70}, 1, 2);
  PixelBuffer other_seed = photo({90, 70}, 2, 2);
  PixelBuffer other_subject = photo({90, 70}, 1, 3);
  EXPECT_TRUE(same(first, again));
  EXPECT_FALSE(same(first, other_seed));
  EXPECT_FALSE(same(first, other_subject));
}

TEST(Photo, CanHaveAnySize) {
  for (const ImageSize size : {ImageSize{1, 1}, {1, 40}, {40, 1}, {2, 3}, {17, 16}, {333, 5}}) {
    EXPECT_EQ(photo(size, 7, 0).size(), size);
  }
}

TEST(Photo, OneSubjectHasItsColors) {
  constexpr uint64_t kSubjects = 6, kEach = 6;
  std::array<std::array<std::array<double, 3>, kEach>, kSubjects> colors;
  std::array<std::array<double, 3>, kSubjects> centres{};
  for (uint64_t s = 0; s < kSubjects; ++s) {
    for (uint64_t i = 0; i < kEach; ++i) {
      PixelBuffer pixels = photo({80, 60}, 100 * s + i, s);
      colors[s][i] = mean_color(pixels);
      for (size_t c = 0; c < 3; ++c) centres[s][c] += colors[s][i][c] / kEach;
    }
  }
  uint64_t right = 0;
  for (uint64_t s = 0; s < kSubjects; ++s) {
    for (const auto& color : colors[s]) {
      const auto distance = [&](uint64_t other) {
        double sum = 0;
        for (size_t c = 0; c < 3; ++c) sum += std::pow(color[c] - centres[other][c], 2);
        return sum;
      };
      uint64_t nearest = 0;
      for (uint64_t other = 1; other < kSubjects; ++other)
        if (distance(other) < distance(nearest)) nearest = other;
      right += nearest == s ? 1 : 0;
    }
  }
  // Chance gives 6 of 36; colour alone need not tell all.
  EXPECT_GE(right, 18u);
}

TEST(PhotoStatistics, CostsTheBitsOfImageNet) {
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < 10; ++i) {
    PixelBuffer pixels = photo({487, 424}, i, i);
    bytes += write_jpeg(pixels.view(), {})->size();
  }
  EXPECT_NEAR(static_cast<double>(bytes) / 10 / 1024, 109, 8);
}

TEST(WriteJpeg, RefusesWhatJpegCannotHave) {
  PixelBuffer pixels;
  pixels.reset({65'501, 1}, 3);
  std::memset(pixels.row(0), 0, size_t{65'501} * 3);
  const auto written = write_jpeg(pixels.view(), {});
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message.find("65501 x 1"), std::string::npos);
}

}  // namespace
}  // namespace foreload
