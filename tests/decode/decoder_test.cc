// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/decoder.h"

#include "foreload/decode/exif.h"
#include "foreload/decode/image_format.h"
#include "foreload/decode/upright.h"

#include "corpus.h"
#include "jpeg_maker.h"

namespace foreload {
namespace {

TEST(DecoderTest, ContentDecidesTheFormat) {
  const auto format_name = [](const Bytes& file) { return format_of(file)->name; };
  EXPECT_EQ(format_name(corpus_file("lossy.webp")), "WebP");
  EXPECT_EQ(format_name(corpus_file("really_a_png.jpg")), "PNG");
  EXPECT_EQ(format_name(corpus_file("really_a_jpeg.png")), "JPEG");
  EXPECT_EQ(format_of(corpus_file("text.jpg")), nullptr);
  EXPECT_EQ(format_of({}), nullptr);
}

TEST(DecoderTest, MessagesSayWhatIsWrong) {
  EXPECT_EQ(flaw_of({}), "an empty file");
  EXPECT_EQ(flaw_of(corpus_file("text.jpg")), "not a JPEG, PNG, WebP or GIF image");
  EXPECT_EQ(flaw_of(corpus_file("truncated.jpg")),
            "truncated JPEG image: the file ends before the last pixel; copy it again");
  EXPECT_EQ(flaw_of(corpus_file("truncated_in_header.jpg")),
            "truncated JPEG image: the file ends inside its header; copy it again");
  EXPECT_EQ(flaw_of(corpus_file("truncated.png")),
            "truncated PNG image: the file ends before the last pixel; copy it again");
  EXPECT_EQ(flaw_of(corpus_file("two_channels.jpg")),
            "JPEG image with 2 colour channels; convert it to RGB");
  EXPECT_NE(flaw_of(corpus_file("bad_header_checksum.png")).find("corrupt PNG image: "),
            std::string::npos);
}

TEST(DecoderTest, ErrorsAreOfTheKindInvalid) {
  for (const char* const name : {"text.jpg", "truncated.jpg", "truncated.png"}) {
    const auto pixels = decode_all(corpus_file(name));
    ASSERT_FALSE(pixels) << name;
    EXPECT_EQ(pixels.error().kind, ErrorKind::invalid) << name;
  }
}

TEST(DecoderTest, TooManyPixelsAreRefusedByTheHeader) {
  const DecodeOptions options{.most_pixels = 45 * 35 - 1};
  for (const char* const name : {"420.jpg", "filtered.png"}) {
    const auto header = read_header(corpus_file(name), options);
    ASSERT_FALSE(header) << name;
    EXPECT_EQ(header.error().message,
              "declares 45 x 35 pixels, more than the 1574 allowed, as in Pillow; make a smaller "
              "image of it");
    EXPECT_TRUE(read_header(corpus_file(name), {.most_pixels = 45 * 35}));
  }
}

TEST(DecoderTest, DefaultLimitIsPillows) {
  Bytes file = corpus_file("420.jpg");
  size_t frame = 0;
  while (file[frame] != std::byte{0xFF} || file[frame + 1] != std::byte{0xC0}) ++frame;
  for (size_t i = 5; i < 9; ++i) file[frame + i] = std::byte{0xFF};
  const auto header = read_header(file, {});
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().message.find("declares 65535 x 65535 pixels"), 0u);
}

TEST(DecoderTest, OrientationIsReadOnlyWhenAskedFor) {
  const Bytes file = corpus_file("orientation_6.jpg");
  EXPECT_EQ(read_header(file, {})->orientation, 1);
  const auto header = read_header(file, {.exif_orientation = true});
  EXPECT_EQ(header->orientation, 6);
  EXPECT_EQ(header->size, (ImageSize{21, 14}));
  EXPECT_EQ(header->upright(), (ImageSize{14, 21}));
}

// Every region of the upright image, shrunk or not, for all eight ways an image can lie.
TEST(DecoderTest, RegionsOfTurnedImagesAreExact) {
  Scratch scratch;
  const DecodeOptions options{.exif_orientation = true};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Bytes file = corpus_file(fmt::format("orientation_{}.jpg", orientation));
    for (const unsigned shrink : {1u, 2u}) {
      const auto full = decode_all(file, options, shrink);
      ASSERT_TRUE(full);
      const auto [width, height] = full->size;
      for (uint32_t x = 0; x < width; x += 3) {
        for (uint32_t y = 0; y < height; y += 2) {
          const Region region{x, y, (width - x + 1) / 2, (height - y + 1) / 2};
          const auto part = decode_region(file, options, region, shrink, scratch);
          ASSERT_TRUE(part) << part.error().message;
          ASSERT_EQ(*part, full->part(region)) << orientation << " at " << x << ", " << y;
        }
      }
    }
  }
}

TEST(DecoderTest, GreyTurnsToo) {
  const Bytes file = corpus_file("orientation_7.jpg");
  const auto grey = decode_all(file, {.mode = ColorMode::grey, .exif_orientation = true});
  const auto rgb = decode_all(file, {.exif_orientation = true});
  ASSERT_TRUE(grey);
  EXPECT_EQ(grey->channels, 1u);
  EXPECT_EQ(grey->size, rgb->size);
}

TEST(DecoderTest, ScratchGrowsOnlyOnce) {
  const Bytes file = make_jpeg({.width = 200, .height = 150, .channels = 4});
  Scratch scratch;
  ASSERT_TRUE(decode_region(file, {}, {0, 0, 200, 150}, 1, scratch));
  const size_t pixels = scratch.decoded.capacity();
  const size_t bytes = scratch.bytes.capacity();
  for (uint32_t i = 1; i < 100; ++i) {
    ASSERT_TRUE(decode_region(file, {}, {i, i, 200 - i, 150 - i}, 1, scratch));
  }
  EXPECT_EQ(scratch.decoded.capacity(), pixels);
  EXPECT_EQ(scratch.bytes.capacity(), bytes);
}

TEST(ExifTest, MalformedBlocksDeclareNothing) {
  const std::string block("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 26);
  const auto bytes = std::as_bytes(std::span(block));
  EXPECT_EQ(exif_orientation(bytes), 6);
  EXPECT_EQ(exif_orientation({}), 0);
  for (size_t size = 1; size < 8; ++size) EXPECT_FALSE(exif_orientation(bytes.first(size)));
  for (size_t size = 8; size < 22; ++size) EXPECT_EQ(exif_orientation(bytes.first(size)), 0);
  std::string far = block;
  far[7] = '\x7f';
  EXPECT_EQ(exif_orientation(std::as_bytes(std::span(far))), 0);
}

TEST(ExifTest, XmpIsSearchedForItsTag) {
  const auto of = [](std::string_view text) {
    return xmp_orientation(std::as_bytes(std::span(text)));
  };
  EXPECT_EQ(of("<x tiff:Orientation=\"8\">"), 8);
  EXPECT_EQ(of("<tiff:Orientation>3</tiff:Orientation>"), 3);
  EXPECT_EQ(of("<tiff:OrientationX>3 tiff:Orientation=\"2\""), 2);
  EXPECT_EQ(of("tiff:Orientation=\"9\""), 1);
  EXPECT_EQ(of("tiff:Orientation="), 0);
  EXPECT_EQ(of(""), 0);
}

}  // namespace
}  // namespace foreload
