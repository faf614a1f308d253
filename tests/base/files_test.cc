// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/files.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "foreload/base/descriptor.h"

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class ReplaceFile : public testing::Test {
 protected:
  size_t entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), {}));
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(ReplaceFile, PutsTheNewBytesInPlaceOfTheOld) {
  const std::string text = "new";
  std::ofstream(folder_ / "file") << "something longer";
  EXPECT_EQ(replace_file(folder_ / "file", bytes_of(text)), 0);
  std::string found;
  std::getline(std::ifstream(folder_ / "file"), found);
  EXPECT_EQ(found, "new");
  EXPECT_EQ(entries(), 1u);
}

TEST_F(ReplaceFile, SaysThatTheFolderIsMissing) {
  EXPECT_EQ(replace_file(folder_ / "no" / "file", {}), ENOENT);
}

TEST_F(ReplaceFile, LeavesNothingBehindIfTheNameIsAFolder) {
  fs::create_directories(folder_ / "file" / "full");
  EXPECT_NE(replace_file(folder_ / "file", {}), 0);
  EXPECT_EQ(entries(), 1u);
}

using ReadFile = ReplaceFile;

TEST_F(ReadFile, GivesAllOfItOrItsFirstBytes) {
  const std::string all(100'000, 'x');
  std::ofstream(folder_ / "file") << all;
  std::string text;
  EXPECT_EQ(read_file(folder_ / "file", text), 0);
  EXPECT_EQ(text, all);
  text.clear();
  EXPECT_EQ(read_file(folder_ / "file", text, 70'000), 0);
  EXPECT_EQ(text.size(), 70'000u);
}

TEST_F(ReadFile, SaysWhatIsWrong) {
  std::string text;
  EXPECT_EQ(read_file(folder_ / "no", text), ENOENT);
  EXPECT_EQ(read_file(folder_, text), EISDIR);
}

TEST_F(ReadFile, EndsWhereTheFileDoes) {
  std::ofstream(folder_ / "file") << "0123456789";
  const Descriptor file(::open((folder_ / "file").c_str(), O_RDONLY));
  std::array<std::byte, 8> into;
  EXPECT_EQ(read_at(file.get(), 1, into), 8);
  EXPECT_EQ(into[0], std::byte{'1'});
  EXPECT_EQ(read_at(file.get(), 7, into), 3);
  EXPECT_EQ(read_at(-1, 0, into), -1);
}

}  // namespace
}  // namespace foreload
