// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/open_folders.h"

#include <fcntl.h>

#include <gtest/gtest.h>

namespace foreload {
namespace {

Descriptor some_folder() {
  return Descriptor(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
}

constexpr SteadyTime kStart = SteadyTime() + std::chrono::hours(1);

TEST(OpenFolders, NothingIsFoundBeforeItIsKept) {
  OpenFolders folders(2);
  EXPECT_EQ(folders.find("a", kStart), nullptr);
  const OpenFolders::Folder kept = folders.keep("a", some_folder(), kStart);
  EXPECT_EQ(folders.find("a", kStart), kept);
}

TEST(OpenFolders, TheOneNotUsedForLongestIsClosed) {
  OpenFolders folders(2);
  folders.keep("a", some_folder(), kStart);
  folders.keep("b", some_folder(), kStart);
  EXPECT_NE(folders.find("a", kStart), nullptr);
  folders.keep("c", some_folder(), kStart);
  EXPECT_NE(folders.find("a", kStart), nullptr);
  EXPECT_EQ(folders.find("b", kStart), nullptr);
  EXPECT_NE(folders.find("c", kStart), nullptr);
}

TEST(OpenFolders, TheFirstOfTwoStays) {
  OpenFolders folders(2);
  const OpenFolders::Folder first = folders.keep("a", some_folder(), kStart);
  EXPECT_EQ(folders.keep("a", some_folder(), kStart), first);
}

TEST(OpenFolders, OneIsLookedUpAgainAfterAWhile) {
  OpenFolders folders(2);
  folders.keep("a", some_folder(), kStart);
  const auto end = kStart + OpenFolders::kLongest;
  EXPECT_NE(folders.find("a", end - std::chrono::milliseconds(1)), nullptr);
  EXPECT_EQ(folders.find("a", end), nullptr);
}

TEST(OpenFolders, WhoHoldsOneCanGoOnUsingIt) {
  OpenFolders folders(1);
  const OpenFolders::Folder held = folders.keep("a", some_folder(), kStart);
  folders.forget("a");
  EXPECT_EQ(folders.find("a", kStart), nullptr);
  EXPECT_NE(::fcntl(held->get(), F_GETFD), -1);
}

// Reads that each held the folder of the other's file once kept each other from opening any.
TEST(OpenFolders, NoneIsKeptAfterDescriptorsRanOut) {
  OpenFolders folders(2);
  EXPECT_TRUE(folders.used());
  folders.keep("a", some_folder(), kStart);
  EXPECT_TRUE(folders.give_up());
  EXPECT_FALSE(folders.used());
  EXPECT_NE(folders.keep("b", some_folder(), kStart), nullptr);  // for who has opened it
  EXPECT_EQ(folders.find("a", kStart), nullptr);
  EXPECT_EQ(folders.find("b", kStart), nullptr);
  EXPECT_FALSE(folders.give_up());
}

}  // namespace
}  // namespace foreload
