// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/webp.h"

#include "corpus.h"

namespace foreload {
namespace {

TEST(WebpTest, EveryTruncationIsRefused) {
  for (const char* const name : {"lossy.webp", "lossless_alpha.webp", "animated.webp"}) {
    const Bytes file = corpus_file(name);
    for (size_t size = 0; size < file.size(); ++size) {
      EXPECT_FALSE(decode_all(std::span(file).first(size))) << name << " " << size;
    }
  }
}

TEST(WebpTest, MessagesSayWhatIsWrong) {
  EXPECT_EQ(flaw_of(corpus_file("truncated.webp")),
            "truncated WebP image: the file ends inside it; copy it again");
  Bytes file = corpus_file("lossy.webp");
  file[23] ^= std::byte{0xFF};  // of the start code of its frame
  EXPECT_EQ(flaw_of(file), "corrupt WebP image: its chunks make no sense; copy it again");
}

TEST(WebpTest, DamagedPixelsAreRefused) {
  // The file ends where its first chunk says, and that is in the middle of the pixels.
  Bytes file = corpus_file("lossy.webp");
  const size_t size = file.size() / 4 * 2;
  file.resize(size);
  file[4] = static_cast<std::byte>((size - 8) & 0xFF);
  file[5] = static_cast<std::byte>((size - 8) >> 8);
  file[16] = static_cast<std::byte>((size - 20) & 0xFF);
  file[17] = static_cast<std::byte>((size - 20) >> 8);
  EXPECT_EQ(flaw_of(file),
            "corrupt WebP image: its pixels are damaged or incomplete; copy it again");
}

// Colours are smoothed across the edges of a region.
TEST(WebpTest, EveryRegionIsThatOfTheWhole) {
  Scratch scratch;
  for (const char* const name : {"lossy.webp", "simple_filter.webp", "low_quality.webp"}) {
    const Bytes file = corpus_file(name);
    const auto full = decode_all(file);
    ASSERT_TRUE(full) << name;
    for (uint32_t i = 0; i < 35; ++i) {
      for (const Region& region :
           {Region{i, 0, 1, 35}, Region{0, i, 45, 1}, Region{i, i, 3, 35 - i},
            Region{i, 3, 10, i + 1 < 32 ? i + 1 : 32}}) {
        const auto part = decode_region(file, {}, region, 1, scratch);
        ASSERT_TRUE(part) << name;
        EXPECT_EQ(*part, full->part(region)) << name << " at " << region.x << ", " << region.y;
      }
    }
  }
}

TEST(WebpTest, OrientationOfItsMetadataCounts) {
  const DecodeOptions upright{.exif_orientation = true};
  EXPECT_EQ(read_header(corpus_file("orientation_6.webp"), upright)->orientation, 6);
  EXPECT_EQ(read_header(corpus_file("xmp_orientation.webp"), upright)->orientation, 5);
  EXPECT_EQ(read_header(corpus_file("lossy.webp"), upright)->orientation, 1);
}

TEST(WebpTest, WideValuesAreThoseOfBytesTimes257) {
  const auto bytes = decode_all(corpus_file("lossless_alpha.webp"), {.mode = ColorMode::rgba});
  const auto words =
      decode_all(corpus_file("lossless_alpha.webp"), {.mode = ColorMode::rgba, .wide = true});
  ASSERT_TRUE(bytes && words);
  for (size_t i = 0; i < bytes->bytes.size(); ++i) {
    uint16_t word = 0;
    std::memcpy(&word, &words->bytes[2 * i], 2);
    ASSERT_EQ(word, bytes->bytes[i] * 257) << i;
  }
}

}  // namespace
}  // namespace foreload
