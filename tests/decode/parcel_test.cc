// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/parcel.h"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/decode/transform.h"

#include "jpeg_maker.h"

namespace foreload {
namespace {

using Bytes = std::vector<std::byte>;

std::shared_ptr<const Transform> cropping() {
  return Transform::compile({step::RandomResizedCrop{{96, 96}}, step::RandomHorizontalFlip{}})
      .value();
}

TEST(Parcel, ComesBackAsItWasPacked) {
  const auto rule = std::make_shared<const PackingRule>(PackingRule::kAll);
  const auto transform = cropping()->packing(rule);
  const Bytes file = make_jpeg({});
  Bytes place(transform->form().bytes());
  Scratch scratch;
  const SampleKey key{3, 1, 17};
  ASSERT_TRUE(transform->run(file, key, place, scratch));
  const auto parcel = rule->find(place);
  ASSERT_TRUE(parcel);
  EXPECT_TRUE(std::ranges::equal(parcel->file, file));
  EXPECT_EQ(parcel->header.key.position, key.position);
  const DrawnParameters drawn = transform->draw(parcel->header.image, key);
  EXPECT_EQ(parcel->header.crop, drawn.crop);
  EXPECT_EQ(parcel->header.flip != 0, drawn.flip);
}

TEST(Parcel, AnotherRuleDoesNotTakeItForOne) {
  const auto rule = std::make_shared<const PackingRule>(PackingRule::kAll);
  const auto transform = cropping()->packing(rule);
  Bytes place(transform->form().bytes());
  Scratch scratch;
  ASSERT_TRUE(transform->run(make_jpeg({}), {}, place, scratch));
  EXPECT_FALSE(PackingRule(PackingRule::kAll).find(place));
  EXPECT_FALSE(rule->find(std::span(place).first(8)));
}

TEST(Parcel, WhatDoesNotFitIsDecoded) {
  const auto rule = std::make_shared<const PackingRule>(PackingRule::kAll);
  const auto small = Transform::compile({step::Resize{{8, 8}}}).value();
  Bytes expected(small->form().bytes());
  Bytes place(expected.size());
  Scratch scratch;
  ASSERT_TRUE(small->run(make_jpeg({}), {}, expected, scratch));
  ASSERT_TRUE(small->packing(rule)->run(make_jpeg({}), {}, place, scratch));
  EXPECT_EQ(place, expected);
}

TEST(Parcel, FloatsAreNeverPacked) {
  const auto rule = std::make_shared<const PackingRule>(PackingRule::kAll);
  const auto floats =
      Transform::compile({step::Resize{{96, 96}}, step::ToDtype{PixelType::float32}}).value();
  Bytes place(floats->form().bytes());
  Scratch scratch;
  ASSERT_TRUE(floats->packing(rule)->run(make_jpeg({}), {}, place, scratch));
  EXPECT_FALSE(rule->find(place));
}

TEST(Parcel, OnlyPlainFilesArePacked) {
  EXPECT_TRUE(is_plain_jpeg(make_jpeg({})));
  EXPECT_TRUE(is_plain_jpeg(make_jpeg({.sampling = {{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}})));
  EXPECT_TRUE(is_plain_jpeg(make_jpeg({.sampling = {{{2, 1}, {1, 1}, {1, 1}, {1, 1}}}})));
  EXPECT_TRUE(is_plain_jpeg(make_jpeg({.restart_blocks = 3})));
  EXPECT_FALSE(is_plain_jpeg(make_jpeg({.sampling = {{{1, 2}, {1, 1}, {1, 1}, {1, 1}}}})));
  EXPECT_FALSE(is_plain_jpeg(make_jpeg({.channels = 1, .sampling = {{{1, 1}}}})));
  EXPECT_FALSE(is_plain_jpeg(make_jpeg({.channels = 4})));
  EXPECT_FALSE(is_plain_jpeg(make_jpeg({.progressive = true})));
  EXPECT_FALSE(is_plain_jpeg(make_jpeg({.separate_scans = true})));
}

TEST(Parcel, FilesThatAreCutOffAreNotPlain) {
  const Bytes whole = make_jpeg({});
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_FALSE(is_plain_jpeg(std::span(whole).first(length))) << length;
  Bytes rest = whole;
  for (size_t at = 2; at + 2 < 600 && at + 2 < rest.size(); ++at) {  // lengths that lead nowhere
    const std::byte kept = rest[at];
    rest[at] = std::byte{0xFF};
    static_cast<void>(is_plain_jpeg(rest));
    rest[at] = kept;
  }
}

}  // namespace
}  // namespace foreload
