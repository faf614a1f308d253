// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/png.h"

#include "corpus.h"

namespace foreload {
namespace {

TEST(PngTest, EveryTruncationOfThePixelsIsRefused) {
  const Bytes file = corpus_file("rgb_8.png");
  constexpr size_t kEndChunk = 12;
  for (size_t size = 0; size < file.size() - kEndChunk; ++size) {
    EXPECT_FALSE(decode_all(std::span(file).first(size))) << size;
  }
  EXPECT_TRUE(decode_all(std::span(file).first(file.size() - kEndChunk)));
}

TEST(PngTest, EveryTruncationOfInterlacedPixelsIsRefused) {
  const Bytes file = corpus_file("palette_4_interlaced.png");
  for (size_t size = 0; size < file.size() - 12; ++size) {
    EXPECT_FALSE(decode_all(std::span(file).first(size))) << size;
  }
}

TEST(PngTest, WrongChecksumOfPixelsIsRefused) {
  Bytes file = corpus_file("rgb_8.png");
  const size_t checksum = file.size() - 12 - 1;
  file[checksum] ^= std::byte{1};
  EXPECT_NE(flaw_of(file).find("corrupt PNG image"), std::string::npos) << flaw_of(file);
}

TEST(PngTest, DamageBelowTheRegionIsNoticed) {
  Bytes file = corpus_file("rgb_8.png");
  file[file.size() - 12 - 1] ^= std::byte{1};
  Scratch scratch;
  EXPECT_FALSE(decode_region(file, {}, {0, 0, 2, 2}, 1, scratch));
}

TEST(PngTest, EmptyImageIsRefused) {
  Bytes file = corpus_file("rgb_8.png");
  for (size_t i = 16; i < 20; ++i) file[i] = std::byte{0};
  EXPECT_EQ(flaw_of(file), "PNG image that declares no pixels");
}

TEST(PngTest, ImpossibleSizeIsRefused) {
  Bytes file = corpus_file("rgb_8.png");
  file[16] = std::byte{0xFF};
  EXPECT_EQ(flaw_of(file), "PNG image that declares an impossible size");
}

TEST(PngTest, OrientationOfItsExifChunkCounts) {
  const auto header = read_header(corpus_file("orientation_6.png"), {.exif_orientation = true});
  ASSERT_TRUE(header);
  EXPECT_EQ(header->orientation, 6);
  EXPECT_EQ(header->upright(), (ImageSize{19, 23}));
}

}  // namespace
}  // namespace foreload
