// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/jpeg_huffman.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace foreload {
namespace {

// Codes 00: end of block (for DC: no change), 01: one coefficient of 2 bits, 10: the same after a
// zero, 110: sixteen zeros; and one of 12 bits, 111000000000, for a coefficient of 10 bits.
HuffmanTable table() {
  std::array<uint8_t, 17> bits{};
  std::array<uint8_t, 256> symbols{0x00, 0x02, 0x12, 0xF0, 0x0A};
  bits[2] = 3;
  bits[3] = 1;
  bits[12] = 1;
  HuffmanTable made;
  made.assign(bits, symbols);
  return made;
}

// The bits, filled up with ones, a byte 0 after each byte 255, and an end marker.
std::vector<uint8_t> coded(std::string_view bits, bool marker = true) {
  std::vector<uint8_t> bytes;
  unsigned byte = 0, count = 0;
  const auto add = [&](bool bit) {
    byte = byte << 1 | (bit ? 1 : 0);
    if (++count % 8 != 0) return;
    bytes.push_back(static_cast<uint8_t>(byte));
    if ((byte & 0xFF) == 0xFF) bytes.push_back(0);
  };
  for (const char bit : bits) {
    if (bit != ' ') add(bit == '1');
  }
  while (count % 8 != 0) add(true);
  if (marker) bytes.insert(bytes.end(), {0xFF, 0xD9});
  return bytes;
}

using Block = std::array<int16_t, 64>;

TEST(JpegHuffmanTest, ReadsValuesToTheirPlaces) {
  const auto data = coded("01 11  01 10  10 00  00");
  HuffmanReader reader(data);
  Block block{}, expected{};
  expected[0] = 3;
  expected[1] = 2;
  expected[16] = -3;  // third of the zigzag, after a zero
  ASSERT_TRUE(reader.read_block(table(), table(), block.data()));
  EXPECT_EQ(block, expected);
}

TEST(JpegHuffmanTest, ReadsLongCodesAndLongValues) {
  const auto data = coded("111000000000 1111111111  111000000000 0000000000  00");
  HuffmanReader reader(data);
  Block block{}, expected{};
  expected[0] = 1023;
  expected[1] = -1023;
  ASSERT_TRUE(reader.read_block(table(), table(), block.data()));
  EXPECT_EQ(block, expected);
}

TEST(JpegHuffmanTest, ReadsManyBlocksOverStuffedBytes) {
  std::string bits;
  for (int i = 0; i < 500; ++i) bits += "01 11 111000000000 1111111111 110 01 10 00";
  const auto data = coded(bits);
  HuffmanReader reader(data);
  for (int i = 0; i < 500; ++i) {
    Block block{};
    ASSERT_TRUE(reader.read_block(table(), table(), block.data())) << i;
    EXPECT_EQ(block[0], 3);
    EXPECT_EQ(block[1], 1023);
  }
  Block block{};
  EXPECT_FALSE(reader.read_block(table(), table(), block.data()));
}

// Blocks of every length: after the beginning of one, the next must begin where it does.
TEST(JpegHuffmanTest, BeginningsLeaveTheReaderWhereBlocksDo) {
  std::string bits;
  for (int i = 0; i < 300; ++i) {
    bits += "01 11 ";
    int k = 1;
    while (k < 64) {
      const int kind = (i * 7 + k * 5) % 11;
      if (kind == 0) {
        bits += "00 ";
        break;
      }
      if (kind == 1 && k + 16 <= 64) {
        bits += "110 ";
        k += 16;
      } else if (kind < 5 && k + 2 <= 64) {
        bits += "10 01 ";
        k += 2;
      } else {
        bits += kind == 5 ? "111000000000 1010101010 " : "01 10 ";
        ++k;
      }
    }
  }
  const auto data = coded(bits);
  HuffmanTable prepared = table();
  prepared.prepare_skipping();
  for (const unsigned wanted : {1u, 6u, 21u, 63u}) {
    HuffmanReader whole(data), part(data);
    for (int i = 0; i < 300; ++i) {
      Block expected{}, found{};
      ASSERT_TRUE(whole.read_block(prepared, prepared, expected.data())) << i;
      ASSERT_TRUE(part.read_beginning(prepared, prepared, wanted, found.data())) << i;
      EXPECT_EQ(found[0], expected[0]) << i;
      if (wanted > 1) {
        EXPECT_EQ(found[1], expected[1]) << i;
      }
      if (wanted > 5) {
        EXPECT_EQ(found[16], expected[16]) << i;
      }
    }
    Block block{};
    EXPECT_FALSE(part.read_beginning(prepared, prepared, wanted, block.data()));
  }
}

TEST(JpegHuffmanTest, InvalidCodeIsReported) {
  const auto data = coded("01 11  111100000000 00000000");
  HuffmanReader reader(data);
  Block block{};
  EXPECT_FALSE(reader.read_block(table(), table(), block.data()));
}

TEST(JpegHuffmanTest, CoefficientsBeyondTheBlockAreReported) {
  const auto data =
      coded("00  110 110 110  10 11  10 11  10 11  10 11  10 11  10 11  10 11  10 11  00");
  HuffmanReader reader(data);
  Block block{};
  EXPECT_FALSE(reader.read_block(table(), table(), block.data()));
}

TEST(JpegHuffmanTest, MissingDataIsReported) {
  for (const bool marker : {false, true}) {
    const auto data = coded("01 11 01 11", marker);
    HuffmanReader reader(data);
    Block block{};
    EXPECT_FALSE(reader.read_block(table(), table(), block.data()));
  }
  HuffmanReader reader(std::span<const uint8_t>{});
  Block block{};
  EXPECT_FALSE(reader.read_block(table(), table(), block.data()));
}

TEST(JpegHuffmanTest, AssigningAgainReplacesTheTable) {
  HuffmanTable made = table();
  std::array<uint8_t, 17> bits{};
  std::array<uint8_t, 256> symbols{0x01, 0x00};
  bits[1] = 2;
  made.assign(bits, symbols);
  const auto data = coded("0 1  0 0  1");
  HuffmanReader reader(data);
  Block block{};
  ASSERT_TRUE(reader.read_block(made, made, block.data()));
  EXPECT_EQ(block[0], 1);
  EXPECT_EQ(block[1], -1);
}

}  // namespace
}  // namespace foreload
