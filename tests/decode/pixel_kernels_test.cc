// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/pixel_kernels.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/decode/row_writer.h"

#include "pixel_maker.h"

namespace foreload {
namespace {

constexpr ValueMath kImageNet{255, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
constexpr std::array kTypes{PixelType::uint8, PixelType::float32, PixelType::float16,
                            PixelType::bfloat16};

class WriteWith : public testing::TestWithParam<const PixelKernels*> {};

// Every type, layout and width, with bytes around the output that must stay.
TEST_P(WriteWith, EqualsThePortableOneAndStaysInItsPlace) {
  constexpr std::byte kGuard{0xa5};
  PixelBuffer pixels;
  for (const PixelType type : kTypes) {
    for (const Layout layout : {Layout::chw, Layout::hwc}) {
      for (const uint32_t channels : {1u, 3u}) {
        const RowWriter writer = RowWriter::make(type, layout, channels, kImageNet);
        for (const uint32_t width : {1u, 2u, 7u, 8u, 9u, 15u, 16u, 17u, 31u, 33u, 50u, 224u}) {
          make_pixels(pixels, {width, 1}, channels, width);
          const ImageSize size{width, 3};
          const size_t plane = writer.plane_bytes(size);
          std::vector<std::byte> expected(plane * channels + 128, kGuard);
          std::vector<std::byte> result = expected;
          std::byte* row = result.data() + 64 + writer.row_bytes(size);
          GetParam()->write(writer, pixels.row(0), width, row, plane);
          kPortableKernels.write(writer, pixels.row(0), width,
                                 expected.data() + 64 + writer.row_bytes(size), plane);
          EXPECT_EQ(result, expected) << name_of(type) << " " << name_of(layout) << " " << width;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, WriteWith, testing::ValuesIn(usable_kernels()), name_of_kernels);

TEST(RowWriter, NumbersAreThoseOfSinglePrecision) {
  const RowWriter writer = RowWriter::make(PixelType::float32, Layout::chw, 3, kImageNet);
  for (int value = 0; value < 256; ++value) {
    for (size_t c = 0; c < 3; ++c) {
      const float unit = static_cast<float>(value) / 255.0f;
      const float centered = unit - kImageNet.mean[c];
      EXPECT_EQ(writer.floats[c][static_cast<size_t>(value)], centered / kImageNet.std[c]);
    }
  }
}

TEST(RowWriter, UsualMathIsComputedNotLookedUp) {
  EXPECT_TRUE(RowWriter::make(PixelType::float32, Layout::chw, 3, kImageNet).computable);
  EXPECT_TRUE(RowWriter::make(PixelType::float32, Layout::chw, 3, {}).computable);
}

// Numbers whose reciprocals are of no use: the tables must be used then.
TEST(RowWriter, OddMathIsLookedUp) {
  const ValueMath odd{255, {0, 0, 0}, {2e-39f, 1, 1}};
  EXPECT_FALSE(RowWriter::make(PixelType::float32, Layout::chw, 3, odd).computable);
}

float value_of_half(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -24)
                              : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Float16, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t half = 0; half < 0x7bff; ++half) {
    const float here = value_of_half(static_cast<uint16_t>(half));
    const float next = value_of_half(static_cast<uint16_t>(half + 1));
    const float middle = (here + next) / 2;
    ASSERT_EQ(to_float16(here), half);
    ASSERT_EQ(to_float16(-here), half | 0x8000);
    ASSERT_EQ(to_float16(middle), half + (half & 1));
    ASSERT_EQ(to_float16(std::nextafter(middle, here)), half);
    ASSERT_EQ(to_float16(std::nextafter(middle, next)), half + 1);
  }
  EXPECT_EQ(to_float16(65519.0f), 0x7bff);
  EXPECT_EQ(to_float16(65520.0f), 0x7c00);
  EXPECT_EQ(to_float16(-1e30f), 0xfc00);
  EXPECT_EQ(to_float16(NAN), 0x7e00);
}

TEST(Bfloat16, RoundsToTheNearestAndTiesToEven) {
  for (uint32_t high = 0; high < 0x7f7f; ++high) {
    const auto at = [high](uint32_t low) { return std::bit_cast<float>(high << 16 | low); };
    ASSERT_EQ(to_bfloat16(at(0)), high);
    ASSERT_EQ(to_bfloat16(at(0x7fff)), high);
    ASSERT_EQ(to_bfloat16(at(0x8000)), high + (high & 1));
    ASSERT_EQ(to_bfloat16(at(0x8001)), high + 1);
  }
  EXPECT_EQ(to_bfloat16(NAN), 0x7fc0);
}

}  // namespace
}  // namespace foreload
