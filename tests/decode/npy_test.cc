// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/npy.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace foreload {
namespace {

std::string npy(std::string_view header, size_t data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += version;
  file += '\0';
  const size_t digits = version == 1 ? 2 : 4;
  for (size_t i = 0; i < digits; ++i) file += static_cast<char>(header.size() >> (8 * i) & 0xFF);
  file += header;
  file.append(data, 'x');
  return file;
}

Result<NpyArray> parse(std::string_view file) {
  return parse_npy(std::as_bytes(std::span(file)));
}

std::string flaw_of_file(std::string_view file) {
  const auto array = parse(file);
  return array ? "no flaw" : array.error().message;
}

TEST(NpyTest, ReadsWhatNumpyWrites) {
  const std::string file =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }          \n", 48);
  const auto array = parse(file);
  ASSERT_TRUE(array) << array.error().message;
  EXPECT_EQ(array->dtype, "<f4");
  EXPECT_FALSE(array->fortran_order);
  EXPECT_EQ(array->shape, (std::vector<uint64_t>{3, 4}));
  EXPECT_EQ(array->data.size(), 48u);
  EXPECT_EQ(reinterpret_cast<const char*>(array->data.data()), file.data() + file.size() - 48);
}

TEST(NpyTest, ReadsAllVersionsAndShapes) {
  const auto header = [](std::string_view shape) {
    return "{'descr': '|u1', 'fortran_order': True, 'shape': " + std::string(shape) + "}\n";
  };
  EXPECT_TRUE(parse(npy(header("(5,)"), 5, 1)));
  EXPECT_TRUE(parse(npy(header("(5,)"), 5, 2)));
  EXPECT_TRUE(parse(npy(header("(5,)"), 5, 3)));
  EXPECT_TRUE(parse(npy(header("()"), 1)));
  EXPECT_TRUE(parse(npy(header("(0, 7)"), 0)));
  EXPECT_TRUE(parse(npy(header("(2L, 3L)"), 6)));
  EXPECT_TRUE(parse(npy(header("(5,)"), 5))->fortran_order);
}

TEST(NpyTest, KnowsTheWidthOfEveryType) {
  for (const auto& [type, width] : std::vector<std::pair<std::string, size_t>>{{"|b1", 1},
                                                                               {"|i1", 1},
                                                                               {"<i2", 2},
                                                                               {">i4", 4},
                                                                               {"<i8", 8},
                                                                               {"|u1", 1},
                                                                               {"<u2", 2},
                                                                               {"<u4", 4},
                                                                               {"=u8", 8},
                                                                               {"<f2", 2},
                                                                               {"<f4", 4},
                                                                               {">f8", 8},
                                                                               {"<f16", 16},
                                                                               {"<c8", 8},
                                                                               {"<c16", 16}}) {
    const std::string header =
        "{'descr': '" + type + "', 'fortran_order': False, 'shape': (3,), }\n";
    EXPECT_EQ(flaw_of_file(npy(header, 3 * width)), "no flaw") << type;
  }
}

TEST(NpyTest, RefusesWhatIsNotNumbers) {
  const auto header = [](std::string_view type) {
    return "{'descr': " + std::string(type) + ", 'fortran_order': False, 'shape': (1,), }\n";
  };
  EXPECT_EQ(flaw_of_file(npy(header("'|O'"), 8)),
            "not a usable .npy array: its elements are of type '|O'; save plain numbers");
  EXPECT_EQ(flaw_of_file(npy(header("[('a', '<f4')]"), 4)),
            "not a usable .npy array: its elements have fields; save plain numbers");
  for (const char* const type : {"'<U4'", "'|S3'", "'<M8[s]'", "'<f3'", "'f4'", "''", "'<f4x'"}) {
    EXPECT_FALSE(parse(npy(header(type), 8))) << type;
  }
}

TEST(NpyTest, RefusesTooFewAndTooManyBytes) {
  const std::string_view header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
  EXPECT_EQ(flaw_of_file(npy(header, 11)),
            "not a usable .npy array: it is truncated: its data is shorter than its shape says");
  EXPECT_EQ(flaw_of_file(npy(header, 14)),
            "not a usable .npy array: 2 bytes are left over after its data");
  const std::string file = npy(header, 12);
  for (size_t size = 0; size < file.size(); ++size) EXPECT_FALSE(parse(file.substr(0, size)));
}

TEST(NpyTest, RefusesShapesBeyondAnyMemory) {
  EXPECT_FALSE(
      parse(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, "
                "4294967296, 2), }\n",
                0)));
  EXPECT_FALSE(
      parse(npy("{'descr': '<f8', 'fortran_order': False, 'shape': "
                "(99999999999999999999,), }\n",
                0)));
}

TEST(NpyTest, RefusesMalformedHeaders) {
  for (const char* const header : {
           "",
           "{",
           "{}",
           "[]",
           "{'descr': '<f4'}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
       }) {
    EXPECT_FALSE(parse(npy(header, 4))) << header;
  }
}

TEST(NpyTest, RefusesOtherFiles) {
  EXPECT_FALSE(is_npy(std::as_bytes(std::span(std::string_view("NUMPY")))));
  EXPECT_EQ(flaw_of_file("NUMPY"), "not a usable .npy array: it does not begin as one");
  EXPECT_EQ(flaw_of_file(npy("{}", 0, 4)), "not a usable .npy array: format version 4");
}

}  // namespace
}  // namespace foreload
