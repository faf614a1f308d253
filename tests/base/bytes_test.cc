// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/bytes.h"

#include <gtest/gtest.h>

namespace foreload {
namespace {

TEST(ParseBytes, ReadsBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("2GiB"), uint64_t{2} << 30);
  EXPECT_EQ(parse_bytes("2GB"), 2'000'000'000u);
  EXPECT_EQ(parse_bytes("512MiB"), uint64_t{512} << 20);
  EXPECT_EQ(parse_bytes("100KiB"), 102'400u);
  EXPECT_EQ(parse_bytes("12345B"), 12'345u);
  EXPECT_EQ(parse_bytes("1TiB"), uint64_t{1} << 40);
}

TEST(ParseBytes, IgnoresCaseAndSpaceBeforeTheUnit) {
  EXPECT_EQ(parse_bytes("3 mib"), uint64_t{3} << 20);
}

TEST(ParseBytes, ReadsFractionsExactly) {
  EXPECT_EQ(parse_bytes("1.5GiB"), uint64_t{3} << 29);
  EXPECT_EQ(parse_bytes("0.1KB"), 100u);
  EXPECT_EQ(parse_bytes("0.3B"), 0u);
}

TEST(ParseBytes, ReadsTheLargestValue) {
  EXPECT_EQ(parse_bytes("18446744073709551615B"), UINT64_MAX);
}

TEST(ParseBytes, ALetterAloneIsBinaryAsInSlurm) {
  EXPECT_EQ(parse_bytes("8G"), uint64_t{8} << 30);
  EXPECT_EQ(parse_bytes("1k"), 1024u);
  EXPECT_EQ(parse_bytes("3M"), uint64_t{3} << 20);
  EXPECT_EQ(parse_bytes("2T"), uint64_t{2} << 40);
  EXPECT_EQ(parse_bytes("1P"), uint64_t{1} << 50);
}

TEST(ParseBytes, NamesTheUnitThatIsMissing) {
  EXPECT_EQ(parse_bytes("8").error().message,
            "cannot read size '8': it has no unit; write '8GiB', or '8B' if you mean bytes");
}

TEST(ParseBytes, TakesZeroWithoutUnit) {
  EXPECT_EQ(parse_bytes("0"), 0u);
}

class BadSize : public testing::TestWithParam<const char*> {};

TEST_P(BadSize, IsRefusedInOneLineThatNamesIt) {
  const auto result = parse_bytes(GetParam());
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::invalid);
  EXPECT_NE(result.error().message.find(std::string("'") + GetParam() + "'"), std::string::npos);
  EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(ParseBytes, BadSize,
                         testing::Values("", "12", "GiB", "-1GiB", "+1GiB", "1XiB", "1GiBB",
                                         "1.GiB", ".5GiB", "1e3KiB", "18446744073709551616B",
                                         "17000PiB", "99999999999999999999999999B", "1 2GiB",
                                         "0x10B"));

TEST(FormatBytes, PicksAReadableUnit) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.0 KiB");
  EXPECT_EQ(format_bytes((uint64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(format_bytes(uint64_t{1} << 40), "1.0 TiB");
  EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
}

TEST(FormatCount, SeparatesThousands) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1'281'167), "1,281,167");
}

}  // namespace
}  // namespace foreload
