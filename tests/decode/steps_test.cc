// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/steps.h"

#include <string>

#include <gtest/gtest.h>

namespace foreload {
namespace {

std::string flaw(std::string_view json) {
  const auto steps = steps_from_json(json);
  EXPECT_FALSE(steps) << json;
  if (steps) return "";
  EXPECT_EQ(steps.error().kind, ErrorKind::invalid);
  EXPECT_EQ(steps.error().message.find('\n'), std::string::npos);
  return steps.error().message;
}

template <class Kind>
Kind only(std::string_view json) {
  const auto steps = steps_from_json(json);
  EXPECT_TRUE(steps) << (steps ? "" : steps.error().message);
  return std::get<Kind>(steps->at(0));
}

TEST(Steps, DefaultsAreTorchvisions) {
  const auto crop =
      only<step::RandomResizedCrop>(R"([{"step": "RandomResizedCrop", "size": 224}])");
  EXPECT_EQ(crop.size, (ImageSize{224, 224}));
  EXPECT_EQ(crop.scale, (std::array{0.08, 1.0}));
  EXPECT_EQ(crop.ratio, (std::array{3.0 / 4, 4.0 / 3}));
  EXPECT_EQ(crop.interpolation, Interpolation::bilinear);
  EXPECT_EQ(only<step::RandomHorizontalFlip>(R"([{"step": "RandomHorizontalFlip"}])").p, 0.5);
}

TEST(Steps, SizesAreHeightAndWidth) {
  const auto crop = only<step::CenterCrop>(R"([{"step": "CenterCrop", "size": [10, 20]}])");
  EXPECT_EQ(crop.size.height, 10u);
  EXPECT_EQ(crop.size.width, 20u);
}

TEST(Steps, ResizeOfOneNumberIsTheShorterSide) {
  const auto shorter = only<step::Resize>(R"([{"step": "Resize", "size": 256, "max_size": 500}])");
  EXPECT_EQ(shorter.shorter, 256u);
  EXPECT_EQ(shorter.longest, 500u);
  EXPECT_EQ(only<step::Resize>(R"([{"step": "Resize", "size": [256]}])").shorter, 256u);
  const auto both = only<step::Resize>(R"([{"step": "Resize", "size": [30, 40]}])");
  EXPECT_EQ(both.shorter, 0u);
  EXPECT_EQ(both.size, (ImageSize{40, 30}));
}

TEST(Steps, OneNumberStandsForAll) {
  const auto crop =
      only<step::RandomCrop>(R"([{"step": "RandomCrop", "size": 32, "padding": 4, "fill": 128}])");
  EXPECT_EQ(crop.padding, (std::array<uint32_t, 4>{4, 4, 4, 4}));
  EXPECT_EQ(crop.fill, (std::array<uint8_t, 3>{128, 128, 128}));
}

TEST(Steps, JsonComesBackTheSame) {
  const std::vector<Step> steps{
      step::Decode{ColorMode::grey, true, true},
      step::RandomResizedCrop{{7, 8}, {0.1, 1.0 / 3}, {0.5, 2}, Interpolation::bicubic},
      step::Resize{{}, 9, 10, Interpolation::nearest},
      step::Resize{{5, 6}},
      step::CenterCrop{{11, 12}},
      step::RandomCrop{{13, 14}, {1, 2, 3, 4}, true, {5, 6, 7}},
      step::RandomHorizontalFlip{0.25},
      step::Pad{{1, 2, 3, 4}, {5, 6, 7}, PaddingMode::reflect},
      step::FiveCrop{{3, 4}, true, true},
      step::RandomVerticalFlip{0.125},
      step::RandomRotation{{-1, 2}, Interpolation::bicubic, true, std::array{1.5, 2.5}, {1, 2, 3}},
      step::RandomAffine{{-1, 2}, std::array{0.1, 0.2}, std::array{0.5, 2.0}, std::nullopt},
      step::RandomPerspective{0.25, 0.75},
      step::ColorJitter{{0.5, 1.5}, {0, 2}, {1, 1}, {-0.25, 0.5}},
      step::Grayscale{3},
      step::RandomGrayscale{0.5},
      step::RandomInvert{0.1},
      step::RandomPosterize{3, 0.2},
      step::RandomSolarize{99.5, 0.3},
      step::RandomAdjustSharpness{2, 0.4},
      step::RandomAutocontrast{0.6},
      step::RandomEqualize{0.7},
      step::GaussianBlur{{5, 7}, {0.5, 1.5}},
      step::RandomErasing{0.5, {0.1, 0.2}, {0.5, 2}, {1, 2, 3}, true},
      step::Augment{{{{AugmentKind::translate_x, 0.5, {1, 2}, true, 0.25, 10}}}, 2},
      step::RandomApply{{step::RandomInvert{1}}, 0.25},
      step::RandomChoice{{{step::RandomInvert{1}}, {}}, {1, 3}},
      step::RandomOrder{{{step::RandomEqualize{1}}, {step::CenterCrop{{1, 2}}}}},
      step::Normalize{{0.1, 0.2, 0.3}, {0.4, 0.5, 0.6}},
      step::ToDtype{PixelType::bfloat16, true, true},
      step::ToLayout{Layout::hwc}};
  const std::string text = to_json(steps);
  const auto again = steps_from_json(text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), text);
  ASSERT_EQ(again->size(), steps.size());
  for (size_t i = 0; i < steps.size(); ++i) EXPECT_EQ((*again)[i].index(), steps[i].index());
  EXPECT_EQ(std::get<step::RandomResizedCrop>((*again)[1]).scale[1], 1.0 / 3);
}

TEST(Steps, EqualChainsHaveEqualTexts) {
  const auto brief = steps_from_json(R"([{"step": "Resize", "size": 256}])");
  const auto full = steps_from_json(
      R"([{"interpolation": "bilinear", "size": [256], "step": "Resize", "max_size": null}])");
  EXPECT_EQ(to_json(*brief), to_json(*full));
}

TEST(Steps, RefusesWhatItDoesNotKnow) {
  EXPECT_TRUE(
      flaw(R"([{"step": "Rotate"}])")
          .starts_with("step 'Rotate' is not known; there are Decode, RandomResizedCrop, "));
  EXPECT_EQ(flaw(R"([{"step": "CenterCrop", "size": 3, "sise": 4}])"),
            "CenterCrop: key \"sise\" is not known; it has size");
  EXPECT_EQ(flaw(R"([{"step": "Resize", "size": 3, "interpolation": "lanczos"}])"),
            "Resize: \"interpolation\" must be one of nearest, bilinear, bicubic");
}

TEST(Steps, RefusesWhatMakesNoSense) {
  EXPECT_NE(flaw("nonsense").find("JSON list of steps"), std::string::npos);
  EXPECT_NE(flaw("{}").find("JSON list of steps"), std::string::npos);
  EXPECT_EQ(flaw(R"([{"step": "ToLayout"}, 7])"), "step 2 has no \"step\" with its name in it");
  EXPECT_EQ(flaw(R"([{"step": "CenterCrop"}])"), "CenterCrop: \"size\" is missing");
  EXPECT_EQ(flaw(R"([{"step": "CenterCrop", "size": [1, -2]}])"),
            "CenterCrop: \"size\" must be 2 numbers from 0 to 4294967295");
  EXPECT_EQ(flaw(R"([{"step": "RandomCrop", "size": 3, "fill": 256}])"),
            "RandomCrop: \"fill\" must be 3 numbers from 0 to 255");
  EXPECT_EQ(flaw(R"([{"step": "RandomHorizontalFlip", "p": "often"}])"),
            "RandomHorizontalFlip: \"p\" must be a number");
  EXPECT_EQ(flaw(R"([{"step": "Normalize", "mean": [1, 2]}])"),
            "Normalize: \"mean\" must be 3 numbers");
  EXPECT_EQ(flaw(R"([{"step": "Decode", "fast": 1}])"), "Decode: \"fast\" must be true or false");
}

}  // namespace
}  // namespace foreload
