// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/jpeg.h"

#include "corpus.h"
#include "jpeg_maker.h"

namespace foreload {
namespace {

using Sampling = std::array<std::array<int, 2>, 4>;

struct NamedSampling {
  const char* name;
  int channels;
  Sampling sampling;
};

const std::vector<NamedSampling>& samplings() {
  static const std::vector<NamedSampling> kList{
      {"444", 3, {{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {"422", 3, {{{2, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {"420", 3, {{{2, 2}, {1, 1}, {1, 1}, {1, 1}}}},
      {"440", 3, {{{1, 2}, {1, 1}, {1, 1}, {1, 1}}}},
      {"411", 3, {{{4, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {"410", 3, {{{4, 2}, {1, 1}, {1, 1}, {1, 1}}}},
      {"441", 3, {{{1, 4}, {1, 1}, {1, 1}, {1, 1}}}},
      {"311", 3, {{{3, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {"tall_thirds", 3, {{{1, 3}, {1, 1}, {1, 1}, {1, 1}}}},
      {"half_and_quarter", 3, {{{4, 1}, {2, 1}, {1, 1}, {1, 1}}}},
      {"mixed", 3, {{{2, 2}, {1, 2}, {2, 1}, {1, 1}}}},
      {"fine_color", 3, {{{1, 1}, {2, 2}, {1, 1}, {1, 1}}}},
      {"444_in_large_blocks", 3, {{{2, 1}, {2, 1}, {2, 1}, {1, 1}}}},
      {"grey", 1, {{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {"grey_in_large_blocks", 1, {{{2, 2}, {1, 1}, {1, 1}, {1, 1}}}},
      {"cmyk", 4, {{{1, 1}, {1, 1}, {1, 1}, {1, 1}}}},
      {"cmyk_subsampled", 4, {{{2, 2}, {1, 1}, {1, 1}, {2, 2}}}},
  };
  return kList;
}

class Draws {
 public:
  explicit Draws(uint64_t seed) : seed_(seed) {}
  // From first to last, both included.
  uint32_t between(uint32_t first, uint32_t last) {
    return first + static_cast<uint32_t>(mix64(seed_ * 1'000'003 + ++count_) % (last - first + 1));
  }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

Region draw_region(Draws& draws, ImageSize size) {
  Region region;
  region.width = draws.between(1, size.width);
  region.height = draws.between(1, size.height);
  if (draws.between(0, 3) == 0) region.width = std::min(size.width, draws.between(1, 5));
  if (draws.between(0, 3) == 0) region.height = std::min(size.height, draws.between(1, 5));
  region.x = draws.between(0, size.width - region.width);
  region.y = draws.between(0, size.height - region.height);
  return region;
}

// Decoding a region gives what a full decode, without any of libjpeg's short cuts, has there.
void expect_regions_exact(const JpegKind& kind, int regions, uint64_t seed) {
  const std::vector<std::byte> file = make_jpeg(kind);
  Draws draws(seed);
  Scratch scratch;
  for (const unsigned shrink : {1u, 2u, 4u, 8u}) {
    const auto full = decode_all(file, {}, shrink);
    ASSERT_TRUE(full) << kind.text() << ": " << full.error().message;
    for (int i = 0; i < regions; ++i) {
      const Region region = draw_region(draws, full->size);
      const auto part = decode_region(file, {}, region, shrink, scratch);
      ASSERT_TRUE(part) << kind.text() << ": " << part.error().message;
      ASSERT_EQ(part->bytes, full->part(region).bytes)
          << kind.text() << ", shrink " << shrink << ", region " << region.x << ", " << region.y
          << ", " << region.width << " x " << region.height;
    }
  }
}

class JpegRegionTest : public ::testing::TestWithParam<NamedSampling> {
 protected:
  void check(JpegKind kind, uint64_t images = 5) {
    kind.channels = GetParam().channels;
    kind.sampling = GetParam().sampling;
    Draws sizes(7);
    for (uint64_t seed = 0; seed < images; ++seed) {
      kind.width = sizes.between(1, 150);
      kind.height = sizes.between(1, 130);
      expect_regions_exact(kind, 10, seed);
      if (HasFatalFailure()) return;
    }
  }
};

TEST_P(JpegRegionTest, EqualsFullDecode) {
  check({});
}

TEST_P(JpegRegionTest, EqualsFullDecodeOfProgressive) {
  check({.progressive = true});
}

TEST_P(JpegRegionTest, EqualsFullDecodeOfSeparateScans) {
  check({.separate_scans = true});
}

TEST_P(JpegRegionTest, EqualsFullDecodeWithRestartMarkers) {
  check({.restart_blocks = 3});
}

TEST_P(JpegRegionTest, EqualsFullDecodeOfArithmeticCoding) {
  check({.arithmetic = true});
}

// What libjpeg makes of a file without any help of ours.
std::vector<uint8_t> of_libjpeg(std::span<const std::byte> file) {
  jpeg_decompress_struct info;
  jpeg_error_mgr errors;
  info.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&info);
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&info, TRUE);
  info.out_color_space = JCS_RGB;
  jpeg_start_decompress(&info);
  const size_t row = size_t{info.output_width} * static_cast<size_t>(info.output_components);
  std::vector<uint8_t> pixels(row * info.output_height);
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[] = {pixels.data() + row * info.output_scanline};
    jpeg_read_scanlines(&info, rows, 1);
  }
  jpeg_finish_decompress(&info);
  jpeg_destroy_decompress(&info);
  return pixels;
}

// Our own reader of scans takes no part in what it is compared with.
TEST_P(JpegRegionTest, ProgressiveEqualsLibjpeg) {
  if (GetParam().channels == 4) return;  // converted; the corpus has some
  for (const int quality : {5, 75, 95, 100}) {
    for (const unsigned restart : {0u, 1u, 5u}) {
      const Bytes file = make_jpeg({.width = 131,
                                    .height = 97,
                                    .channels = GetParam().channels,
                                    .sampling = GetParam().sampling,
                                    .progressive = true,
                                    .restart_blocks = restart,
                                    .quality = quality});
      const auto pixels = decode_all(file);
      ASSERT_TRUE(pixels) << pixels.error().message;
      EXPECT_EQ(pixels->bytes, of_libjpeg(file)) << quality << ", restart " << restart;
    }
  }
}

// The same over many more sizes.
class JpegRegionSoak : public JpegRegionTest {};

TEST_P(JpegRegionSoak, EqualsFullDecode) {
  for (const bool progressive : {false, true}) {
    for (const unsigned restart : {0u, 1u, 7u}) {
      check({.progressive = progressive, .restart_blocks = restart}, 60);
      if (HasFatalFailure()) return;
    }
  }
}

const auto sampling_name = [](const auto& one) { return one.param.name; };
INSTANTIATE_TEST_SUITE_P(Samplings, JpegRegionTest, ::testing::ValuesIn(samplings()),
                         sampling_name);
INSTANTIATE_TEST_SUITE_P(Samplings, JpegRegionSoak, ::testing::ValuesIn(samplings()),
                         sampling_name);

Region lower_left(ImageSize size) {
  return {0, size.height / 2, size.width / 2, 3};
}

TEST(JpegTest, RowsMissingBelowTheRegionAreNoticed) {
  Bytes file = make_jpeg({.width = 200, .height = 200});
  file.resize(file.size() * 3 / 4);
  Scratch scratch;
  const auto part = decode_region(file, {}, {0, 0, 50, 10}, 1, scratch);
  ASSERT_FALSE(part);
  EXPECT_NE(part.error().message.find("truncated JPEG"), std::string::npos) << part.error().message;
}

TEST(JpegTest, EndMarkerMayLieBeforeOtherBytes) {
  Bytes file = make_jpeg({});
  const auto full = decode_all(file);
  file.insert(file.end(), 5000, std::byte{0x20});
  Scratch scratch;
  const Region region = lower_left(full->size);
  const auto part = decode_region(file, {}, region, 1, scratch);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->bytes, full->part(region).bytes);
}

// The end marker alone may be missing where the bits before it suffice, as in Pillow.
TEST(JpegTest, EveryTruncationIsRefused) {
  const Bytes file = make_jpeg({.width = 40, .height = 30});
  constexpr size_t kEndMarker = 2;
  for (size_t size = 0; size < file.size() - kEndMarker; ++size) {
    EXPECT_FALSE(decode_all(std::span(file).first(size))) << size;
  }
}

TEST(JpegTest, EveryTruncationOfProgressiveIsRefused) {
  const Bytes file = make_jpeg({.width = 40, .height = 30, .progressive = true});
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(decode_all(std::span(file).first(size))) << size;
  }
}

TEST(JpegTest, WidestImageDecodes) {
  const Bytes file = make_jpeg({.width = 65'500, .height = 9});
  const auto full = decode_all(file);
  ASSERT_TRUE(full) << full.error().message;
  Scratch scratch;
  const Region region{65'400, 3, 100, 5};
  const auto part = decode_region(file, {}, region, 1, scratch);
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->bytes, full->part(region).bytes);
}

TEST(JpegTest, TallestImageDecodes) {
  const Bytes file = make_jpeg({.width = 9, .height = 65'500});
  const auto full = decode_all(file);
  ASSERT_TRUE(full) << full.error().message;
  EXPECT_EQ(full->size, (ImageSize{9, 65'500}));
}

// An image must not be decoded with tables that an earlier one left behind.
TEST(JpegTest, ImagesShareNothing) {
  const Bytes other = make_jpeg({.quality = 20});
  const Bytes without_tables = corpus_file("without_huffman_tables.jpg");
  const auto expected = decode_all(without_tables);
  ASSERT_TRUE(expected) << expected.error().message;
  Scratch scratch;
  ASSERT_TRUE(decode_region(other, {}, {0, 0, 10, 10}, 1, scratch));
  const auto after = decode_region(without_tables, {}, whole(expected->size), 1, scratch);
  ASSERT_TRUE(after);
  EXPECT_EQ(after->bytes, expected->bytes);
}

TEST(JpegTest, MissingQuantizationTablesAreNotThoseOfTheImageBefore) {
  const Bytes file = make_jpeg({});
  Bytes without = file;
  constexpr std::array kMarker{std::byte{0xFF}, std::byte{0xDB}};
  for (auto at = without.begin();;) {
    at = std::search(at, without.end(), kMarker.begin(), kMarker.end());
    if (at == without.end()) break;
    const ptrdiff_t length = std::to_integer<int>(at[2]) * 256 + std::to_integer<int>(at[3]);
    at = without.erase(at, at + 2 + length);
  }
  Scratch scratch;
  const Region region{0, 0, 10, 10};
  ASSERT_TRUE(decode_region(file, {}, region, 1, scratch));
  EXPECT_FALSE(decode_region(without, {}, region, 1, scratch));
  EXPECT_TRUE(decode_region(file, {}, region, 1, scratch));
}

// Tables that libjpeg makes itself, for files that have theirs between scans, add up for a while.
TEST(JpegTest, ManyImagesWithTheSameScratch) {
  const Bytes progressive = make_jpeg({.width = 20, .height = 20, .progressive = true});
  const Bytes grey = make_jpeg({.width = 20, .height = 20, .channels = 1});
  const auto expected = decode_all(progressive);
  ASSERT_TRUE(expected);
  Scratch scratch;
  for (int i = 0; i < 1500; ++i) {
    ASSERT_TRUE(decode_region(grey, {}, {0, 0, 20, 20}, 1, scratch));
    const auto again = decode_region(progressive, {}, {0, 0, 20, 20}, 1, scratch);
    ASSERT_TRUE(again);
    ASSERT_EQ(again->bytes, expected->bytes);
  }
}

TEST(JpegTest, HeaderIsReadWithoutLookingAtPixels) {
  const Bytes file = make_jpeg({.width = 300, .height = 200});
  const auto header = read_header(std::span(file).first(700), {});
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->size, (ImageSize{300, 200}));
}

}  // namespace
}  // namespace foreload
