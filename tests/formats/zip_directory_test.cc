// SPDX-License-Identifier: Apache-2.0
//
// Archives made byte by byte, odd ones too; those of real programs are in tests/python/test_zip.py.
#include "foreload/formats/zip_directory.h"

#include <gtest/gtest.h>

#include "zip_maker.h"

namespace foreload {
namespace {

Result<std::vector<ZipMember>> read(const std::string& file) {
  return read_zip("x.zip", file.size(),
                  [&file](const std::vector<ZipRange>& ranges) -> Result<std::vector<std::string>> {
                    std::vector<std::string> bytes;
                    for (const ZipRange& range : ranges) {
                      EXPECT_LE(range.offset + range.length, file.size());
                      bytes.push_back(file.substr(range.offset, range.length));
                    }
                    return bytes;
                  });
}

void expect_members(const std::string& file, const std::vector<ZipMade>& members) {
  const auto found = read(file);
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), members.size());
  for (size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ((*found)[i].name, members[i].name);
    EXPECT_EQ(file.substr((*found)[i].offset, (*found)[i].length), members[i].bytes);
  }
}

void expect_refused(const std::string& file, const std::string& words) {
  const auto found = read(file);
  ASSERT_FALSE(found) << words;
  EXPECT_EQ(found.error().kind, ErrorKind::invalid);
  EXPECT_NE(found.error().message.find(words), std::string::npos) << found.error().message;
  EXPECT_EQ(found.error().message.find("cannot read x.zip as a data set: "), 0u);
}

const std::vector<ZipMade> kSome{{"a/1.jpg", "one"},
                                 {"a/2.jpg", "", 0, 0, false, "more in the own header only"},
                                 {"b/", ""},
                                 {"b/3.jpg", std::string(5000, 'x')}};

TEST(Zip, FindsTheBytesOfEveryMember) {
  expect_members(make_zip(kSome), kSome);
  expect_members(make_zip(kSome, false, "a comment"), kSome);
  expect_members(make_zip(kSome, false, "PK\x05\x06 in a comment, long enough to be an end"),
                 kSome);
  expect_members(make_zip({}), {});
}

TEST(Zip, FindsWhatTakesSixtyFourBits) {
  expect_members(make_zip(kSome, true), kSome);
  std::vector<ZipMade> large = kSome;
  for (ZipMade& one : large) one.in_64 = true;
  expect_members(make_zip(large, true), large);
  expect_members(make_zip(large), large);
}

TEST(Zip, SaysWhyAMemberCannotBeRead) {
  expect_refused(make_zip({{"a", "x", 1}}), "member a is encrypted");
  expect_refused(make_zip({{"a", "x", 0, 8}}), "zip -0 -r");
  expect_refused(make_zip({{"a", "x"}, {"a", "y"}}), "member a is there twice");
  std::string pieces = make_zip({{"a", "x"}});
  pieces[pieces.size() - 18] = 1;
  expect_refused(pieces, "zip -s 0");
}

TEST(Zip, EveryTruncationIsRefused) {
  const std::string file = make_zip(kSome, true, "comment");
  for (size_t size = 0; size < file.size(); ++size) {
    const auto found = read(file.substr(0, size));
    ASSERT_FALSE(found) << size;
    EXPECT_EQ(found.error().kind, ErrorKind::invalid);
  }
}

TEST(Zip, AChangedByteNeverLeadsOutside) {
  const std::string file = make_zip(kSome, true);
  for (size_t at = 0; at < file.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string changed = file;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const auto found = read(changed);
      if (!found) continue;
      for (const ZipMember& member : *found) ASSERT_LE(member.offset + member.length, file.size());
    }
  }
}

}  // namespace
}  // namespace foreload
