// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/transform.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/decode/pixel_kernels.h"
#include "foreload/photos/jpeg_writer.h"
#include "foreload/photos/photo.h"

#include "corpus.h"
#include "jpeg_maker.h"
#include "pixel_maker.h"

namespace foreload {
namespace {

using Chain = std::shared_ptr<const Transform>;

const step::Normalize kNormalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

Chain compiled(std::vector<Step> steps) {
  auto chain = Transform::compile(std::move(steps));
  EXPECT_TRUE(chain) << (chain ? "" : chain.error().message);
  return *chain;
}

std::string flaw(std::vector<Step> steps) {
  const auto chain = Transform::compile(std::move(steps));
  EXPECT_FALSE(chain);
  if (chain) return "";
  EXPECT_EQ(chain.error().kind, ErrorKind::invalid);
  EXPECT_EQ(chain.error().message.find('\n'), std::string::npos);
  return chain.error().message;
}

std::vector<std::byte> result_of(const Chain& chain, std::span<const std::byte> file,
                                 const SampleKey& key, Scratch& scratch) {
  auto sample = chain->run(file, key, scratch);
  EXPECT_TRUE(sample) << (sample ? "" : sample.error().message);
  return sample ? std::move(sample->bytes) : std::vector<std::byte>{};
}

class TransformWith : public testing::TestWithParam<const PixelKernels*> {};

// The expectations come from whole images, step by step, with Pillow.
TEST_P(TransformWith, EqualsPillow) {
  Scratch scratch;
  for (const auto& item : expected_cases("transform_expected.jsonl")) {
    const auto steps = steps_from_json(item["chain"].dump());
    ASSERT_TRUE(steps) << steps.error().message;
    const auto chain = Transform::compile(*steps, *GetParam());
    ASSERT_TRUE(chain) << chain.error().message;
    const auto& image = item["image"];
    const auto file = make_png({image[0], image[1]}, image[2], image[3]);
    const auto& key = item["key"];
    const auto sample = (*chain)->run(file, {key[0], key[1], key[2]}, scratch);
    ASSERT_TRUE(sample) << sample.error().message << item;
    EXPECT_EQ(sample->form.size, (ImageSize{item["size"][0], item["size"][1]})) << item;
    Digest digest;
    digest.add(sample->bytes.data(), sample->bytes.size());
    EXPECT_EQ(digest.text(), item["digest"].get<std::string>()) << item;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, TransformWith, testing::ValuesIn(usable_kernels()),
                         name_of_kernels);

TEST(Transform, WritesExactlyItsPlace) {
  const auto file = make_png({70, 60}, 3, 1);
  Scratch scratch;
  for (const PixelType type : {PixelType::uint8, PixelType::float32, PixelType::bfloat16}) {
    for (const Layout layout : {Layout::chw, Layout::hwc}) {
      for (const uint32_t side : {1u, 13u, 33u}) {
        const Chain chain = compiled({step::RandomResizedCrop{{side, side + 1}},
                                      step::ToDtype{type}, step::ToLayout{layout}});
        ASSERT_TRUE(chain->form().fixed());
        const uint64_t bytes = chain->form().bytes();
        std::vector<std::byte> memory(bytes + 128, std::byte{0x5a});
        const auto into = std::span(memory).subspan(64, bytes);
        ASSERT_TRUE(chain->run(file, {1, 2, 3}, into, scratch));
        const auto alone = result_of(chain, file, {1, 2, 3}, scratch);
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), into.begin()));
        for (size_t i = 0; i < 64; ++i) {
          ASSERT_EQ(memory[i], std::byte{0x5a});
          ASSERT_EQ(memory[64 + bytes + i], std::byte{0x5a});
        }
      }
    }
  }
}

TEST(Transform, IsAFunctionOfFileChainAndKey) {
  const auto one = make_png({70, 60}, 3, 1);
  const auto other = make_png({200, 30}, 3, 2);
  const Chain chain = compiled({step::RandomResizedCrop{{24, 24}}, step::RandomHorizontalFlip{},
                                step::ColorJitter{{0.5, 1.5}, {0.5, 1.5}, {0.5, 1.5}}, kNormalize});
  Scratch used;
  Scratch fresh;
  const auto before = result_of(chain, one, {1, 2, 3}, used);
  result_of(chain, other, {1, 2, 3}, used);
  EXPECT_EQ(result_of(chain, one, {1, 2, 3}, used), before);
  EXPECT_EQ(result_of(chain, one, {1, 2, 3}, fresh), before);
  EXPECT_NE(result_of(chain, one, {0, 2, 3}, used), before);
  EXPECT_NE(result_of(chain, one, {1, 0, 3}, used), before);
  EXPECT_NE(result_of(chain, one, {1, 2, 0}, used), before);
}

TEST(Transform, IsTheSameInManyThreads) {
  const auto file = make_jpeg({.width = 200, .height = 150});
  const Chain chain = compiled({step::RandomResizedCrop{{48, 48}}, step::RandomHorizontalFlip{},
                                step::ColorJitter{{0.5, 1.5}, {0.5, 1.5}, {0.5, 1.5}}, kNormalize});
  constexpr uint64_t kSamples = 48;
  const auto run_all = [&](unsigned threads) {
    std::vector<std::vector<std::byte>> results(kSamples);
    std::vector<std::jthread> running;
    for (unsigned thread = 0; thread < threads; ++thread) {
      running.emplace_back([&, thread] {
        Scratch scratch;
        for (uint64_t i = thread; i < kSamples; i += threads) {
          results[i] = result_of(chain, file, {1, 2, i}, scratch);
        }
      });
    }
    running.clear();
    return results;
  };
  EXPECT_EQ(run_all(8), run_all(1));
}

// Random steps are numbered among themselves: others around them change nothing.
TEST(Transform, DrawsDoNotDependOnStepsThatDrawNothing) {
  const Chain brief = compiled({step::RandomResizedCrop{{24, 24}}, step::RandomHorizontalFlip{}});
  const Chain full = compiled({step::Decode{}, step::RandomResizedCrop{{24, 24}},
                               step::RandomHorizontalFlip{}, kNormalize, step::ToLayout{}});
  for (uint64_t i = 0; i < 20; ++i) {
    const auto a = brief->draw({500, 400}, {1, 2, i});
    const auto b = full->draw({500, 400}, {1, 2, i});
    EXPECT_EQ(a.crop, b.crop);
    EXPECT_EQ(a.flip, b.flip);
  }
}

// These numbers are what past training runs drew; they may never change.
TEST(Transform, DrawsAreAsTheyAlwaysWere) {
  const Chain chain = compiled({step::RandomResizedCrop{{224, 224}}, step::RandomHorizontalFlip{},
                                step::ColorJitter{{0.5, 1.5}, {0.5, 1.5}, {0.5, 1.5}}});
  const auto drawn = chain->draw({500, 375}, {42, 3, 1'000'000});
  EXPECT_EQ(drawn.crop, (Region{56, 9, 441, 357}));
  EXPECT_TRUE(drawn.flip);
  EXPECT_EQ(drawn.jitter_order, (std::array<uint8_t, 4>{0, 2, 1, 3}));
  EXPECT_DOUBLE_EQ(drawn.jitter[0], 0.6498358788601316);
}

TEST(Transform, CropDecodesNoMoreThanItNeeds) {
  const auto file = make_jpeg({.width = 400, .height = 300});
  const Chain chain = compiled({step::Resize{{}, 256}, step::CenterCrop{{64, 64}}});
  Scratch scratch;
  result_of(chain, file, {}, scratch);
  EXPECT_LT(scratch.decoded.size().width, 90u);
  EXPECT_LT(scratch.decoded.size().height, 90u);
}

// What is decoded as a part must be what a full decode gives there, through a whole chain.
TEST(Transform, PartsOfJpegsEqualTheWhole) {
  Scratch scratch;
  for (const bool progressive : {false, true}) {
    const auto file = make_jpeg({.width = 161, .height = 120, .progressive = progressive});
    const auto whole = compiled({})->run(file, {}, scratch);
    ASSERT_TRUE(whole) << whole.error().message;
    const Chain crop = compiled({step::RandomCrop{{50, 40}}});
    for (uint64_t i = 0; i < 30; ++i) {
      const auto part = result_of(crop, file, {0, 0, i}, scratch);
      const auto drawn = crop->draw({161, 120}, {0, 0, i});
      for (uint32_t y = 0; y < 40; ++y) {
        const size_t at =
            ((static_cast<size_t>(drawn.top) + y) * 161 + static_cast<size_t>(drawn.left)) * 3;
        ASSERT_EQ(0, std::memcmp(&part[size_t{y} * 150], &whole->bytes[at], 150));
      }
    }
  }
}

// Crops and sizes are those of the turned image.
TEST(Transform, TurnsImagesFirst) {
  Scratch scratch;
  for (const int orientation : {1, 2, 3, 4, 5, 6, 7, 8}) {
    const auto file = corpus_file(fmt::format("orientation_{}.jpg", orientation));
    const step::Decode upright{.exif_orientation = true};
    const auto whole = compiled({upright})->run(file, {}, scratch);
    ASSERT_TRUE(whole) << whole.error().message;
    const ImageSize size = whole->form.size;
    const auto part = result_of(compiled({upright, step::CenterCrop{{8, 6}}}), file, {}, scratch);
    const auto left = static_cast<size_t>(std::nearbyint((size.width - 8) / 2.0));
    const auto top = static_cast<size_t>(std::nearbyint((size.height - 6) / 2.0));
    for (size_t y = 0; y < 6; ++y) {
      ASSERT_EQ(0,
                std::memcmp(&part[y * 24], &whole->bytes[((top + y) * size.width + left) * 3], 24))
          << "orientation " << orientation;
    }
  }
}

TEST(Transform, FastIsWithinThreeGreyLevels) {
  Scratch scratch;
  // As large as they may be for each fraction, and larger.
  for (const uint32_t size : {200u, 300u, 450u, 901u}) {
    PixelBuffer photo;
    make_photo({size, size * 3 / 4}, size, size % 7, photo);
    const auto file = *write_jpeg(photo.view(), {});
    for (uint64_t i = 0; i < 8; ++i) {
      const std::vector<Step> steps{step::Decode{}, step::RandomResizedCrop{{96, 96}},
                                    step::RandomHorizontalFlip{}};
      std::vector<Step> fast_steps = steps;
      fast_steps[0] = step::Decode{.fast = true};
      const auto exact = result_of(compiled(steps), file, {9, 9, i}, scratch);
      const auto fast = result_of(compiled(fast_steps), file, {9, 9, i}, scratch);
      double difference = 0;
      for (size_t at = 0; at < exact.size(); ++at) {
        difference += std::abs(static_cast<int>(exact[at]) - static_cast<int>(fast[at]));
      }
      EXPECT_LE(difference / static_cast<double>(exact.size()), 3.0) << size << ", draw " << i;
    }
  }
}

TEST(Transform, FastDecodesLess) {
  const auto file = make_jpeg({.width = 1000, .height = 800});
  Scratch scratch;
  result_of(compiled({step::Decode{.fast = true}, step::Resize{{250, 200}}}), file, {}, scratch);
  EXPECT_EQ(scratch.decoded.size(), (ImageSize{250, 200}));
  // 1000 / 4 would be less than the result.
  result_of(compiled({step::Decode{.fast = true}, step::Resize{{251, 200}}}), file, {}, scratch);
  EXPECT_EQ(scratch.decoded.size(), (ImageSize{500, 400}));
  // Nothing to shrink.
  result_of(compiled({step::Decode{.fast = true}, step::CenterCrop{{10, 10}}}), file, {}, scratch);
  EXPECT_EQ(scratch.decoded.size(), (ImageSize{10, 10}));
}

TEST(Transform, VeryWideImagesCostOnlyWhatIsNeeded) {
  const auto file = make_jpeg({.width = 65'500, .height = 2});
  Scratch scratch;
  for (const auto how : {Interpolation::nearest, Interpolation::bilinear, Interpolation::bicubic}) {
    const Chain eval =
        compiled({step::Resize{{}, 256, std::nullopt, how}, step::CenterCrop{{224, 224}}});
    EXPECT_EQ(result_of(eval, file, {}, scratch).size(), 224u * 224 * 3);
  }
  EXPECT_EQ(result_of(compiled({step::Resize{{224, 224}}}), file, {}, scratch).size(),
            224u * 224 * 3);
  const auto all = compiled({step::Resize{{}, 256}})->run(file, {}, scratch);
  ASSERT_FALSE(all);
  EXPECT_NE(all.error().message.find("8384000 x 256"), std::string::npos) << all.error().message;
}

TEST(Transform, KnowsItsForm) {
  const auto form = compiled({step::RandomResizedCrop{{224, 200}}, kNormalize})->form();
  EXPECT_EQ(form.size, (ImageSize{224, 200}));
  EXPECT_EQ(form.type, PixelType::float32);
  EXPECT_EQ(form.layout, Layout::hwc);
  EXPECT_EQ(form.bytes(), 224u * 200 * 3 * 4);
  EXPECT_FALSE(compiled({})->form().fixed());
  EXPECT_FALSE(compiled({step::Resize{{}, 256}})->form().fixed());
  EXPECT_FALSE(compiled({step::CenterCrop{{9, 9}}, step::Resize{{}, 5}})->form().fixed());
  EXPECT_TRUE(compiled({step::Resize{{}, 256}, step::CenterCrop{{9, 9}}})->form().fixed());
  EXPECT_EQ(compiled({step::Decode{.mode = ColorMode::grey}})->form().channels, 1u);
}

TEST(Transform, KnowsWhetherItIsRandom) {
  EXPECT_FALSE(compiled({step::Resize{{}, 256}, step::CenterCrop{{9, 9}}})->random());
  EXPECT_TRUE(compiled({step::RandomHorizontalFlip{}})->random());
  EXPECT_TRUE(compiled({step::ColorJitter{}})->random());
}

TEST(Transform, AddsADecode) {
  EXPECT_EQ(name_of(compiled({step::Resize{{}, 256}})->steps().front()), "Decode");
  EXPECT_EQ(compiled({step::Decode{}})->steps().size(), 1u);
}

TEST(Transform, RefusesChainsThatMakeNoSense) {
  EXPECT_EQ(flaw({kNormalize, step::CenterCrop{{9, 9}}}),
            "step 2 (CenterCrop): works on 8-bit images; move it in front of Normalize");
  EXPECT_EQ(flaw({step::ToDtype{}, step::ColorJitter{}}),
            "step 2 (ColorJitter): works on 8-bit images; move it in front of ToDtype");
  EXPECT_EQ(flaw({step::ToDtype{}, step::ToDtype{}}),
            "step 2 (ToDtype): is there twice; leave one out");
  EXPECT_EQ(flaw({kNormalize, kNormalize}),
            "step 2 (Normalize): is there twice; put both into one");
  EXPECT_EQ(flaw({step::ToLayout{}, step::ToLayout{}}),
            "step 2 (ToLayout): is there twice; leave one out");
  EXPECT_EQ(flaw({kNormalize, step::ToDtype{PixelType::uint8}}),
            "step 2 (ToDtype): uint8 cannot hold what Normalize gives; use a float type");
  EXPECT_EQ(flaw({step::ToDtype{PixelType::uint8}, kNormalize}),
            "step 2 (Normalize): comes after ToDtype uint8 but gives float numbers; leave that "
            "ToDtype out");
  EXPECT_EQ(flaw({step::CenterCrop{{9, 9}}, step::Decode{}}),
            "step 2 (Decode): must be the first step");
  EXPECT_EQ(flaw({step::CenterCrop{{0, 9}}}),
            "step 1 (CenterCrop): size must be at least 1 x 1 pixel");
  EXPECT_EQ(flaw({step::Resize{{}, 100, 100}}),
            "step 1 (Resize): max_size 100 must be larger than the shorter side, 100");
  EXPECT_EQ(flaw({step::Normalize{{0, 0, 0}, {1, 0, 1}}}),
            "step 1 (Normalize): std must be finite numbers and none of them 0");
  EXPECT_EQ(flaw({step::RandomHorizontalFlip{1.5}}),
            "step 1 (RandomHorizontalFlip): p must be a probability from 0 to 1");
  EXPECT_EQ(flaw({step::RandomResizedCrop{{9, 9}, {0, 1}}}),
            "step 1 (RandomResizedCrop): scale must be two positive shares of the area, the "
            "smaller one first");
  EXPECT_EQ(flaw({step::ColorJitter{{-1, 1}}}),
            "step 1 (ColorJitter): each range must be two factors not below 0, the smaller one "
            "first");
}

TEST(Transform, SaysWhyASampleCannotBeMade) {
  Scratch scratch;
  const auto file = make_png({20, 30}, 3, 1);
  const auto small = compiled({step::RandomCrop{{32, 32}}})->run(file, {}, scratch);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().message,
            "RandomCrop of 32 x 32 needs a larger image than 20 x 30 pixels; set pad_if_needed, or "
            "resize first");
  const auto broken = std::span(file).subspan(0, file.size() / 2);
  EXPECT_FALSE(compiled({step::RandomResizedCrop{{32, 32}}})->run(broken, {}, scratch));
  EXPECT_FALSE(compiled({})->run(std::span<const std::byte>{}, {}, scratch));
}

// Padding so wide that the crop may miss the image.
TEST(Transform, CropOfPaddingOnlyIsFill) {
  Scratch scratch;
  const auto file = make_png({2, 2}, 3, 1);
  const Chain chain = compiled({step::RandomCrop{{5, 5}, {60, 60, 60, 60}, false, {1, 2, 3}}});
  bool missed = false;
  for (uint64_t i = 0; i < 20; ++i) {
    const auto bytes = result_of(chain, file, {0, 0, i}, scratch);
    ASSERT_EQ(bytes.size(), 75u);
    const auto drawn = chain->draw({2, 2}, {0, 0, i});
    if (drawn.left >= 2 || drawn.left <= -5 || drawn.top >= 2 || drawn.top <= -5) {
      missed = true;
      for (size_t at = 0; at < bytes.size(); ++at) {
        ASSERT_EQ(static_cast<size_t>(bytes[at]), at % 3 + 1);
      }
    }
  }
  EXPECT_TRUE(missed);
}

TEST(Transform, CropsStayInsideAndKeepTheirShape) {
  const Chain chain = compiled({step::RandomResizedCrop{{24, 24}}});
  for (uint64_t i = 0; i < 500; ++i) {
    const auto random = philox(77, i);
    const ImageSize image{1 + random[0] % 900, 1 + random[1] % 900};
    const Region crop = chain->draw(image, {1, 1, i}).crop;
    ASSERT_GT(crop.width, 0u);
    ASSERT_GT(crop.height, 0u);
    ASSERT_LE(crop.x + crop.width, image.width);
    ASSERT_LE(crop.y + crop.height, image.height);
  }
}

TEST(TransformStatistics, DrawsAreUniform) {
  // Crops that always fit at the first try.
  const Chain chain =
      compiled({step::RandomResizedCrop{{24, 24}, {0.1, 0.5}}, step::RandomHorizontalFlip{},
                step::ColorJitter{{0, 2}, {0, 2}, {0, 2}}});
  constexpr uint64_t kDraws = 40'000;
  double area = 0;
  double log_ratio = 0;
  double left = 0;
  uint64_t flips = 0;
  std::array<std::array<uint64_t, 3>, 3> orders{};
  double brightness = 0;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const auto drawn = chain->draw({100'000, 100'000}, {3, 1, i});
    const double w = drawn.crop.width;
    const double h = drawn.crop.height;
    area += w * h / 1e10;
    log_ratio += std::log(w / h);
    left += drawn.crop.x / (100'000 - w);
    flips += drawn.flip;
    brightness += drawn.jitter[0];
    for (size_t at = 0; at < 3; ++at) ++orders[at][drawn.jitter_order[at]];
  }
  EXPECT_NEAR(area / kDraws, 0.3, 0.005);
  EXPECT_NEAR(log_ratio / kDraws, 0, 0.005);
  EXPECT_NEAR(left / kDraws, 0.5, 0.01);
  EXPECT_NEAR(static_cast<double>(flips) / kDraws, 0.5, 0.01);
  EXPECT_NEAR(brightness / kDraws, 1, 0.01);
  for (const auto& at : orders) {
    for (const uint64_t count : at) EXPECT_NEAR(static_cast<double>(count) / kDraws, 1.0 / 3, 0.01);
  }
}

// What another decoder gives is treated as if this library had decoded it.
TEST(Transform, AsksAnotherDecoderForOtherFormats) {
  const auto png = make_png({40, 30}, 3, 1);
  const auto plain = compiled({step::Decode{}});
  const auto chain =
      compiled({step::RandomResizedCrop{{16, 12}}, step::RandomHorizontalFlip{}, kNormalize});
  const OtherDecoder decoder = [&](std::span<const std::byte> file, const DecodeOptions&,
                                   PixelBuffer& out) -> Result<void> {
    if (file.size() == 1) return fail(ErrorKind::invalid, "nobody knows it");
    Scratch scratch;
    const auto pixels = result_of(plain, png, {}, scratch);
    out.reset({40, 30}, 3);
    for (uint32_t y = 0; y < 30; ++y) std::memcpy(out.row(y), pixels.data() + y * 120, 120);
    return {};
  };
  const auto asking = chain->with_other_formats(decoder, "a test");
  const std::vector<std::byte> unknown(2);
  Scratch scratch;
  for (uint64_t position = 0; position < 20; ++position) {
    const SampleKey key{1, 2, position};
    EXPECT_EQ(result_of(asking, unknown, key, scratch), result_of(chain, png, key, scratch));
    EXPECT_EQ(result_of(asking, png, key, scratch), result_of(chain, png, key, scratch));
  }
  const auto failed = asking->run(std::span(unknown).first(1), {}, scratch);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().message, "not a JPEG, PNG, WebP or GIF image, and nobody knows it");
  EXPECT_FALSE(asking->run({}, {}, scratch));
}

}  // namespace
}  // namespace foreload
