// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"
#include "foreload/decode/row_resampler.h"

#include "pixel_maker.h"

namespace foreload {
namespace {

const std::map<std::string, Interpolation> kInterpolations{{"nearest", Interpolation::nearest},
                                                           {"bilinear", Interpolation::bilinear},
                                                           {"bicubic", Interpolation::bicubic}};

std::vector<uint8_t> bytes_of(PixelBuffer& pixels) {
  std::vector<uint8_t> bytes;
  for (uint32_t y = 0; y < pixels.size().height; ++y) {
    const uint8_t* row = pixels.row(y);
    bytes.insert(bytes.end(), row, row + size_t{pixels.size().width} * pixels.channels());
  }
  return bytes;
}

Box whole_box(ImageSize size) {
  return {0, 0, static_cast<double>(size.width), static_cast<double>(size.height)};
}

// The part of `in` inside `box`, at another size, flipped left to right if wanted.
void resample(const PixelView& in, const Box& box, ImageSize size, Interpolation interpolation,
              bool flip, PixelBuffer& out, Scratch& scratch, const PixelKernels& kernels) {
  const Resizing resizing{
      .x = {in.size.width, box.left, box.right, size.width, 0, size.width},
      .y = {in.size.height, box.top, box.bottom, size.height, 0, size.height},
      .interpolation = interpolation,
      .flip = flip,
  };
  out.reset(size, in.channels);
  RowResampler rows(in, {}, resizing, kernels, scratch);
  for (uint32_t y = 0; y < size.height; ++y) rows.next(out.row(y));
}

class ResampleWith : public testing::TestWithParam<const PixelKernels*> {
 protected:
  std::vector<uint8_t> resized(const Box& box, ImageSize size, Interpolation interpolation,
                               bool flip) {
    resample(in_.view(), box, size, interpolation, flip, out_, scratch_, *GetParam());
    return bytes_of(out_);
  }

  PixelBuffer in_;
  PixelBuffer out_;
  Scratch scratch_;
};

TEST_P(ResampleWith, EqualsPillow) {
  for (const auto& item : expected_cases("resample_expected.jsonl")) {
    const auto& image = item["image"];
    const auto& box = item["box"];
    make_pixels(in_, {image[0], image[1]}, image[2], image[3]);
    resample(in_.view(), {box[0], box[1], box[2], box[3]}, {item["size"][0], item["size"][1]},
             kInterpolations.at(item["interpolation"]), item["flip"], out_, scratch_, *GetParam());
    EXPECT_EQ(digest_of(out_), item["digest"].get<std::string>()) << item;
  }
}

TEST_P(ResampleWith, EqualsThePortableOne) {
  PixelBuffer expected;
  for (uint64_t i = 0; i < 150; ++i) {
    const auto random = philox(5, i);
    const ImageSize from{1 + random[0] % 200, 1 + random[1] % 200};
    const ImageSize to{1 + random[2] % 150, 1 + random[3] % 150};
    const uint32_t channels = i % 4 == 0 ? 1 : 3;
    const auto how = i % 3 == 0 ? Interpolation::bicubic : Interpolation::bilinear;
    make_pixels(in_, from, channels, static_cast<uint32_t>(i));
    resample(in_.view(), whole_box(from), to, how, i % 2 == 0, expected, scratch_,
             kPortableKernels);
    EXPECT_EQ(resized(whole_box(from), to, how, i % 2 == 0), bytes_of(expected))
        << from.width << " x " << from.height << " to " << to.width << " x " << to.height;
  }
}

// Weights near the limits of their limbs, pixels at both ends of their range.
TEST_P(ResampleWith, ExtremesAreExact) {
  PixelBuffer expected;
  for (const uint32_t size : {2u, 3u, 5u, 64u, 1000u}) {
    in_.reset({size, size}, 3);
    for (uint32_t y = 0; y < size; ++y) {
      for (uint32_t x = 0; x < 3 * size; ++x) {
        in_.row(y)[x] = static_cast<uint8_t>((x / 3 + y + x % 3) % 2 * 255);
      }
    }
    for (const ImageSize to : {ImageSize{1, 1}, ImageSize{7, 4}, ImageSize{70, 90}}) {
      resample(in_.view(), whole_box(in_.size()), to, Interpolation::bicubic, false, expected,
               scratch_, kPortableKernels);
      EXPECT_EQ(resized(whole_box(in_.size()), to, Interpolation::bicubic, false),
                bytes_of(expected));
    }
  }
}

TEST_P(ResampleWith, FlipEqualsFlippingTheResult) {
  make_pixels(in_, {61, 40}, 3, 1);
  for (const auto& [name, interpolation] : kInterpolations) {
    for (const ImageSize to : {ImageSize{30, 50}, ImageSize{61, 20}, ImageSize{61, 40}}) {
      const auto plain = resized(whole_box(in_.size()), to, interpolation, false);
      const auto flipped = resized(whole_box(in_.size()), to, interpolation, true);
      for (uint32_t y = 0; y < to.height; ++y) {
        for (uint32_t x = 0; x < to.width; ++x) {
          const size_t here = (size_t{y} * to.width + x) * 3;
          const size_t there = (size_t{y} * to.width + to.width - 1 - x) * 3;
          ASSERT_TRUE(std::equal(&plain[here], &plain[here] + 3, &flipped[there])) << name;
        }
      }
    }
  }
}

TEST_P(ResampleWith, SameSizeIsACopy) {
  make_pixels(in_, {45, 23}, 3, 2);
  for (const auto& [name, interpolation] : kInterpolations) {
    EXPECT_EQ(resized(whole_box(in_.size()), in_.size(), interpolation, false), bytes_of(in_))
        << name;
  }
}

TEST_P(ResampleWith, PlainColorStaysPlain) {
  for (const int value : {0, 1, 127, 254, 255}) {
    in_.reset({97, 83}, 3);
    for (uint32_t y = 0; y < 83; ++y) std::fill_n(in_.row(y), 97 * 3, static_cast<uint8_t>(value));
    for (const ImageSize to : {ImageSize{13, 200}, ImageSize{96, 2}, ImageSize{300, 82}}) {
      const auto result = resized(whole_box(in_.size()), to, Interpolation::bicubic, false);
      EXPECT_EQ(std::ranges::count(result, value), static_cast<int64_t>(result.size()));
    }
  }
}

// A window of the result must not depend on what is computed around it: crops after a resize rely
// on it.
TEST_P(ResampleWith, WindowsAreCutFromTheWhole) {
  for (uint64_t i = 0; i < 120; ++i) {
    const auto random = philox(6, i);
    const ImageSize from{1 + random[0] % 90, 1 + random[1] % 90};
    const ImageSize to{1 + random[2] % 120, 1 + random[3] % 120};
    const auto more = philox(7, i);
    const uint32_t left = more[0] % to.width;
    const uint32_t top = more[1] % to.height;
    const ImageSize part{1 + more[2] % (to.width - left), 1 + more[3] % (to.height - top)};
    const auto how = static_cast<Interpolation>(i % 3);
    make_pixels(in_, from, 3, static_cast<uint32_t>(i));
    const auto all = resized(whole_box(from), to, how, false);

    const Resizing window{.x = {from.width, 0, double(from.width), to.width, left, part.width},
                          .y = {from.height, 0, double(from.height), to.height, top, part.height},
                          .interpolation = how};
    // Only what the window needs is there, in memory of its own.
    const Region needs = window.needs();
    PixelBuffer needed;
    needed.reset({needs.width, needs.height}, 3);
    for (uint32_t y = 0; y < needs.height; ++y) {
      std::copy_n(in_.row(needs.y + y) + size_t{3} * needs.x, size_t{3} * needs.width,
                  needed.row(y));
    }
    RowResampler rows(needed.view(), needs, window, *GetParam(), scratch_);
    out_.reset({part.width, 1}, 3);
    for (uint32_t y = 0; y < part.height; ++y) {
      rows.next(out_.row(0));
      const uint8_t* expected = &all[(size_t{top + y} * to.width + left) * 3];
      ASSERT_TRUE(std::equal(expected, expected + size_t{3} * part.width, out_.row(0)))
          << "case " << i << ", row " << y;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, ResampleWith, testing::ValuesIn(usable_kernels()),
                         name_of_kernels);

TEST(Resample, UsesTheBestKernels) {
  EXPECT_EQ(&best_kernels(), usable_kernels().front());
  EXPECT_EQ(usable_kernels().back(), &kPortableKernels);
}

// Pillow 13 changed the order for tall images; earlier ones always resized columns first.
TEST(Resample, OrderOfPassesIsPillows) {
  const auto order = [](ImageSize from, ImageSize to) {
    return Resizing{.x = {from.width, 0, 0, to.width}, .y = {from.height, 0, 0, to.height}}
        .vertical_first();
  };
  EXPECT_FALSE(order({500, 400}, {224, 224}));
  EXPECT_TRUE(order({230, 400}, {224, 224}));
  EXPECT_TRUE(order({100, 400}, {224, 224}));
  EXPECT_FALSE(order({100, 100}, {224, 224}));
  EXPECT_FALSE(order({58, 64}, {39, 26}));  // twice as many exactly
  EXPECT_TRUE(order({58, 65}, {39, 26}));
}

}  // namespace
}  // namespace foreload
