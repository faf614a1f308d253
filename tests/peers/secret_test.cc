// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/secret.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "../temporary_folder.h"

namespace foreload {
namespace {

const std::string kText = "000102030405060708090a0b0c0d0e0fF0f1f2f3f4f5f6f7f8f9fafbfcfdfeff";

class SecretFile : public testing::Test {
 protected:
  SecretFile() {
    std::ofstream(file_) << kText << "\n";
    ::chmod(file_.c_str(), 0600);
  }
  const TemporaryFolder temporary_;
  const std::filesystem::path file_ = temporary_.path() / "secret";
};

TEST(Secret, Digits) {
  const auto secret = parse_secret("  " + kText + "\n", "here");
  ASSERT_TRUE(secret);
  EXPECT_EQ((*secret)[0], std::byte{0});
  EXPECT_EQ((*secret)[10], std::byte{10});
  EXPECT_EQ((*secret)[16], std::byte{0xf0});
  EXPECT_EQ((*secret)[31], std::byte{0xff});
  EXPECT_EQ(*parse_secret(secret_text(*secret), "here"), *secret);
}

TEST(Secret, WhatIsNoSecret) {
  for (const std::string& text :
       {std::string(), std::string("password"), kText + "0", kText.substr(1), std::string(64, '0'),
        std::string(64, 'x'), "+" + kText.substr(1)}) {
    const auto secret = parse_secret(text, "FORELOAD_SECRET");
    ASSERT_FALSE(secret) << text;
    EXPECT_EQ(secret.error().kind, ErrorKind::invalid);
    EXPECT_NE(secret.error().message.find("FORELOAD_SECRET"), std::string::npos);
    if (text.size() > 8) {
      EXPECT_EQ(secret.error().message.find(text), std::string::npos);
    }
  }
}

TEST(Secret, DrawnOnesDiffer) {
  const auto one = draw_secret(), other = draw_secret();
  ASSERT_TRUE(one && other);
  EXPECT_NE(*one, *other);
}

TEST_F(SecretFile, ReadIfItIsPrivate) {
  const auto secret = read_secret(file_);
  ASSERT_TRUE(secret) << secret.error().message;
  EXPECT_EQ(*secret, *parse_secret(kText, "here"));
}

TEST_F(SecretFile, RefusedIfOthersMayReadOrWrite) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0666}) {
    ::chmod(file_.c_str(), mode);
    const auto secret = read_secret(file_);
    ASSERT_FALSE(secret) << std::oct << mode;
    EXPECT_EQ(secret.error().kind, ErrorKind::invalid);
    EXPECT_NE(secret.error().message.find("0600"), std::string::npos);
  }
}

TEST_F(SecretFile, RefusedIfItIsAnotherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_EQ(::chown(file_.c_str(), 12345, 0), 0);
  EXPECT_FALSE(read_secret(file_));
}

TEST(Secret, OfTheUserIsMadeOnceAndPrivate) {
  const TemporaryFolder temporary;
  const std::filesystem::path folder = temporary.path();
  ::setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  std::vector<Result<JobSecret>> secrets(8, JobSecret{});
  std::vector<std::jthread> threads;
  for (auto& secret : secrets) threads.emplace_back([&secret] { secret = secret_of_user(); });
  threads.clear();
  for (const auto& secret : secrets) {
    ASSERT_TRUE(secret) << secret.error().message;
    EXPECT_EQ(*secret, *secrets[0]);
  }
  EXPECT_EQ(*read_secret(folder / "foreload-secret"), *secrets[0]);
  const std::filesystem::directory_iterator files(folder);
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "nothing else is left behind";
  ::unsetenv("XDG_RUNTIME_DIR");
  ::setenv("XDG_CACHE_HOME", (folder / "cache").c_str(), 1);
  EXPECT_TRUE(secret_of_user());
  EXPECT_TRUE(read_secret(folder / "cache" / "foreload" / "foreload-secret"));
}

TEST(Secret, NoFileOrNoPlainFile) {
  EXPECT_EQ(read_secret("/nowhere/secret").error().kind, ErrorKind::unreadable);
  EXPECT_EQ(read_secret("/dev/null").error().kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace foreload
