// SPDX-License-Identifier: Apache-2.0
#include <set>

#include <fmt/format.h>

#include "../temporary_folder.h"
#include "plain_files_kind.h"

namespace foreload {
namespace {

class PlainFilesTest : public testing::Test {
 protected:
  std::shared_ptr<Tier> open(uint32_t member = 0, uint32_t members = 1) const {
    DiskSettings settings;
    settings.folder = folder_;
    settings.budget = 1 << 20;
    settings.member = member;
    settings.members = members;
    auto tier = open_plain_files(settings, nullptr);
    EXPECT_TRUE(tier) << tier.error().message;
    return *tier;
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(PlainFilesTest, OthersFindTheBytesOfACopyInItsFile) {
  const auto tier = open();
  TestBorrower user(*tier);
  ASSERT_EQ(user.put(key_of(1, 7), 5000), TierEnd::done);
  const auto file = plain_file(folder_, key_of(1, 7));
  ASSERT_FALSE(file.empty());
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const Bytes expected = bytes_of(key_of(1, 7), 5000);
  EXPECT_EQ(text, std::string(reinterpret_cast<const char*>(expected.data()), expected.size()));
}

TEST_F(PlainFilesTest, ALaterRunFindsThemAgain) {
  {
    const auto tier = open();
    TestBorrower user(*tier);
    for (uint64_t i = 0; i < 20; ++i) ASSERT_EQ(user.put(key_of(i), 1000 + i), TierEnd::done);
  }
  std::ofstream(folder_ / ".1-1.tmp") << "what a crash leaves";
  const auto tier = open();
  TestBorrower user(*tier);
  EXPECT_EQ(tier->found().size(), 20u);
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(user.get(key_of(i), 1000 + i), TierEnd::done);
}

TEST_F(PlainFilesTest, EachOfSeveralTakesItsPart) {
  {
    const auto tier = open();
    TestBorrower user(*tier);
    for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(user.put(key_of(i), 100), TierEnd::done);
  }
  const auto first = open(0, 2);
  const auto second = open(1, 2);
  EXPECT_EQ(first->found().size() + second->found().size(), 50u);
  for (const FoundCopy& copy : first->found()) EXPECT_FALSE(second->holds(copy.key));
}

TEST_F(PlainFilesTest, AFileThatSomebodyRemovedIsAMiss) {
  const auto tier = open();
  TestBorrower user(*tier);
  ASSERT_EQ(user.put(key_of(1), 1000), TierEnd::done);
  std::filesystem::remove(plain_file(folder_, key_of(1)));
  EXPECT_EQ(user.get(key_of(1), 1000), TierEnd::miss);
  EXPECT_FALSE(tier->holds(key_of(1)));
  EXPECT_EQ(user.put(key_of(1), 1000), TierEnd::done);
  EXPECT_EQ(user.get(key_of(1), 1000), TierEnd::done);
}

TEST_F(PlainFilesTest, WhatCannotBeWrittenTurnsItOff) {
  const auto tier = open();
  TestBorrower user(*tier);
  std::filesystem::remove_all(folder_);
  EXPECT_EQ(user.put(key_of(1), 1000), TierEnd::failed);
  ASSERT_TRUE(tier->dead());
  EXPECT_NE(tier->dead()->find("cannot write to cache of files"), std::string::npos);
  EXPECT_EQ(tier->payload(), 0u);
}

}  // namespace
}  // namespace foreload
