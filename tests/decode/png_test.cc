// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/png.h"

#include "corpus.h"
#include "png_maker.h"

namespace foreload {
namespace {

constexpr size_t kEndChunk = 12;
constexpr size_t kChecksum = 4;

TEST(PngTest, EveryTruncationThatTakesPixelsIsRefused) {
  const Bytes file = corpus_file("rgb_8.png");
  // Pillow does without both checksums, and without the last byte before them, which says no more
  // than that the pixels end.
  const size_t needed = file.size() - kEndChunk - 2 * kChecksum - 1;
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_EQ(decode_all(std::span(file).first(size)).has_value(), size >= needed) << size;
  }
}

TEST(PngTest, EveryTruncationOfInterlacedPixelsIsRefused) {
  const Bytes file = corpus_file("palette_4_interlaced.png");
  const size_t needed = file.size() - kEndChunk - 2 * kChecksum;
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_EQ(decode_all(std::span(file).first(size)).has_value(), size >= needed) << size;
  }
}

TEST(PngTest, ChecksumOfThePixelChunkIsNotLookedAt) {
  Bytes file = corpus_file("rgb_8.png");
  file[file.size() - kEndChunk - 1] ^= std::byte{1};
  EXPECT_EQ(*decode_all(file), *decode_all(corpus_file("rgb_8.png")));
}

TEST(PngTest, WrongChecksumOfPixelsIsRefused) {
  Bytes file = corpus_file("rgb_8.png");
  file[file.size() - kEndChunk - kChecksum - 1] ^= std::byte{1};
  EXPECT_NE(flaw_of(file).find("corrupt PNG image: incorrect data check"), std::string::npos)
      << flaw_of(file);
}

TEST(PngTest, DamageBelowTheRegionIsNoticed) {
  Bytes file = corpus_file("rgb_8.png");
  file[file.size() - kEndChunk - kChecksum - 1] ^= std::byte{1};
  Scratch scratch;
  EXPECT_FALSE(decode_region(file, {}, {0, 0, 2, 2}, 1, scratch));
}

TEST(PngTest, UnknownFilterBelowTheRegionIsNoticed) {
  const Bytes file = png_of({1, 3}, 1, {0, 10, 0, 20, 5, 30});
  Scratch scratch;
  const auto found = decode_region(file, {.mode = ColorMode::grey}, {0, 0, 1, 1}, 1, scratch);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().message.find("unknown filter"), std::string::npos);
}

TEST(PngTest, EmptyImageIsRefused) {
  EXPECT_EQ(flaw_of(png_of({0, 3}, 1, {0, 0, 0})), "PNG image that declares no pixels");
}

TEST(PngTest, ImpossibleSizeIsRefused) {
  EXPECT_EQ(flaw_of(png_of({1u << 31, 1}, 1, {0, 0})),
            "PNG image that declares an impossible size");
}

TEST(PngTest, OrientationOfItsExifChunkCounts) {
  const auto header = read_header(corpus_file("orientation_6.png"), {.exif_orientation = true});
  ASSERT_TRUE(header);
  EXPECT_EQ(header->orientation, 6);
  EXPECT_EQ(header->upright(), (ImageSize{19, 23}));
}

}  // namespace
}  // namespace foreload
