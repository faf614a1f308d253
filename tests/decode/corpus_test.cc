// SPDX-License-Identifier: Apache-2.0
//
// Every image of the corpus, bit for bit as Pillow decodes it.
#include "corpus.h"

#include <map>
#include <sstream>

namespace foreload {
namespace {

struct Expectation {
  std::string file;
  std::string want;
  bool error = false;
  ImageSize size;
  uint64_t digest = 0;

  DecodeOptions options() const {
    return {.mode = want == "grey" ? ColorMode::grey : ColorMode::rgb,
            .exif_orientation = want == "upright"};
  }
  unsigned shrink() const {
    static const std::map<std::string, unsigned> kShrinks{
        {"half", 2}, {"quarter", 4}, {"eighth", 8}};
    const auto found = kShrinks.find(want);
    return found == kShrinks.end() ? 1 : found->second;
  }
};

std::vector<Expectation> expectations() {
  std::vector<Expectation> list;
  std::ifstream in(corpus_folder() / "expected.txt");
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Expectation one;
    std::string width;
    words >> one.file >> one.want >> width;
    one.error = width == "error";
    if (!one.error) {
      one.size.width = static_cast<uint32_t>(std::stoul(width));
      words >> one.size.height >> std::hex >> one.digest;
    }
    list.push_back(one);
  }
  return list;
}

// An old libjpeg, which leaves some files to Pillow.
bool too_much_for_this_library(const Result<Pixels>& pixels) {
  return !pixels && pixels.error().kind == ErrorKind::unsupported;
}

TEST(CorpusTest, PixelsArePillows) {
  size_t compared = 0;
  for (const Expectation& one : expectations()) {
    if (one.error) continue;
    const auto pixels = decode_all(corpus_file(one.file), one.options(), one.shrink());
    if (too_much_for_this_library(pixels)) continue;
    ASSERT_TRUE(pixels) << one.file << " " << one.want << ": " << pixels.error().message;
    EXPECT_EQ(pixels->size, one.size) << one.file << " " << one.want;
    EXPECT_EQ(fnv1a(pixels->bytes), one.digest) << one.file << " " << one.want;
    ++compared;
  }
  EXPECT_GT(compared, 300u);
}

TEST(CorpusTest, WhatPillowRefusesIsRefused) {
  size_t refused = 0;
  for (const Expectation& one : expectations()) {
    if (!one.error) continue;
    EXPECT_FALSE(decode_all(corpus_file(one.file), one.options(), one.shrink()))
        << one.file << " " << one.want;
    ++refused;
  }
  EXPECT_GT(refused, 20u);
}

TEST(CorpusTest, RegionsAreTheSameInAnyImage) {
  Scratch scratch;
  for (const Expectation& one : expectations()) {
    if (one.error) continue;
    const Bytes file = corpus_file(one.file);
    const auto full = decode_all(file, one.options(), one.shrink());
    if (too_much_for_this_library(full)) continue;
    ASSERT_TRUE(full);
    const auto [width, height] = full->size;
    const Region regions[] = {
        {width / 2, height / 2, width - width / 2, height - height / 2},
        {width / 3, height / 4, std::max(1u, width / 3), std::max(1u, height / 3)},
        {width - 1, height - 1, 1, 1},
        {0, 0, 1, 1},
        {width / 2, 0, 1, height},
        {0, height / 2, width, 1},
    };
    for (const Region& region : regions) {
      const auto part = decode_region(file, one.options(), region, one.shrink(), scratch);
      ASSERT_TRUE(part) << one.file << " " << one.want << ": " << part.error().message;
      EXPECT_EQ(*part, full->part(region))
          << one.file << " " << one.want << " at " << region.x << ", " << region.y;
    }
  }
}

}  // namespace
}  // namespace foreload
