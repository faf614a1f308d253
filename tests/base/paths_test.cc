// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/paths.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include <fstream>

#include <gtest/gtest.h>

#include "../temporary_folder.h"
#include "without_privilege.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

class PathsTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_ / "data" / "train"); }

  static std::string refusal(const Result<void>& result) {
    if (result) return "";
    EXPECT_EQ(result.error().kind, ErrorKind::invalid);
    EXPECT_EQ(result.error().message.find('\n'), std::string::npos);
    return result.error().message;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(PathsTest, TildeIsTheHomeFolder) {
  ASSERT_EQ(::setenv("HOME", root_.c_str(), 1), 0);
  EXPECT_EQ(expand_home("~"), root_);
  EXPECT_EQ(expand_home("~/data/x"), root_ / "data" / "x");
  EXPECT_EQ(expand_home("a/~/x"), "a/~/x");
  EXPECT_EQ(expand_home("/x"), "/x");
}

TEST_F(PathsTest, TildeAndANameIsThatUsersHome) {
  const passwd* me = ::getpwuid(::getuid());
  if (me == nullptr) GTEST_SKIP() << "this user has no name";
  EXPECT_EQ(expand_home(std::string("~") + me->pw_name + "/x"), fs::path(me->pw_dir) / "x");
  EXPECT_EQ(expand_home("~nobody-has-this-name/x"), "~nobody-has-this-name/x");
}

TEST_F(PathsTest, APathThatIsNearlyRightIsSuggested) {
  const std::string meant = "; did you mean " + (root_ / "data" / "train").native() + "?";
  EXPECT_EQ(did_you_mean(root_ / "data" / "trian"), meant);
  EXPECT_EQ(did_you_mean(root_ / "dtaa" / "train"), meant);
  EXPECT_EQ(did_you_mean(root_ / "data" / "train"), "");
}

// The part of a path that exists, like /home, was suggested for all that was not below it.
TEST_F(PathsTest, AFolderThatExistsIsNotSuggestedForWhatIsNotInIt) {
  EXPECT_EQ(did_you_mean(root_ / "data" / "train" / "xyzzy" / "1"), "");
  EXPECT_EQ(did_you_mean(root_ / "dtaa" / "xyzzy"), "");
}

TEST_F(PathsTest, OutputNeedsItsFolder) {
  EXPECT_TRUE(check_output_file("--trace", root_ / "new.json"));
  EXPECT_EQ(refusal(check_output_file("--trace", root_ / "xyzzy" / "new.json")),
            "--trace: cannot write " + (root_ / "xyzzy" / "new.json").native() + ": the folder " +
                (root_ / "xyzzy").native() + " does not exist; make it, or correct the path");
}

TEST_F(PathsTest, OutputIsNoFolder) {
  EXPECT_NE(refusal(check_output_file("--trace", root_ / "data")).find("it is a folder"),
            std::string::npos);
}

TEST_F(PathsTest, OutputNeedsPermission) {
  fs::permissions(root_ / "data", fs::perms::owner_read | fs::perms::owner_exec);
  const WithoutPrivilege unprivileged;
  EXPECT_NE(
      refusal(check_output_file("--trace", root_ / "data" / "new.json")).find("Permission denied"),
      std::string::npos);
}

TEST_F(PathsTest, OutputMayBeADevice) {
  EXPECT_TRUE(check_output_file("--trace", "/dev/null"));
}

TEST_F(PathsTest, OnlyTheLastFolderOfAPathIsMade) {
  EXPECT_TRUE(check_new_folder("disk cache", root_ / "cache"));
  EXPECT_TRUE(check_new_folder("disk cache", root_ / "cache/"));
  EXPECT_TRUE(check_new_folder("disk cache", root_ / "data"));
  EXPECT_EQ(refusal(check_new_folder("disk cache", root_ / "dta" / "cache")),
            "disk cache: cannot make folder " + (root_ / "dta" / "cache").native() + ": " +
                (root_ / "dta").native() +
                ", which it would be in, does not exist; correct the path, or "
                "make it with mkdir -p " +
                (root_ / "dta").native() + "; did you mean " + (root_ / "data").native() + "?");
}

TEST_F(PathsTest, AFileIsNoFolder) {
  std::ofstream(root_ / "file") << "x";
  EXPECT_NE(refusal(check_new_folder("disk cache", root_ / "file")).find("it is a file"),
            std::string::npos);
}

}  // namespace
}  // namespace foreload
