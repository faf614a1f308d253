// SPDX-License-Identifier: Apache-2.0
#include "foreload/photos/photo_set.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include <gtest/gtest.h>

#include "foreload/decode/image_format.h"

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

class PhotoSet : public testing::Test {
 protected:
  std::map<std::string, std::string> files(const std::string& of) const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / of)) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path(), std::ios::binary);
      found[fs::relative(entry.path(), folder_ / of)] = {std::istreambuf_iterator<char>(file), {}};
    }
    return found;
  }
  std::string refusal(const std::string& of, const PhotoSetSettings& settings) const {
    const auto made = write_photo_set(folder_ / of, settings);
    return made ? "" : made.error().message;
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

const PhotoSetSettings kSmall{.count = 22, .classes = 4, .mean_bytes = 3000};

TEST_F(PhotoSet, IsTheSameForTheSameSeed) {
  PhotoSetSettings settings = kSmall;
  for (const unsigned threads : {1u, 3u}) {
    settings.threads = threads;
    ASSERT_TRUE(write_photo_set(folder_ / std::to_string(threads), settings));
  }
  settings.seed = 1;
  ASSERT_TRUE(write_photo_set(folder_ / "other", settings));
  EXPECT_EQ(files("1"), files("3"));
  EXPECT_NE(files("1"), files("other"));
}

TEST_F(PhotoSet, HasAllFilesInClassFolders) {
  const auto made = write_photo_set(folder_ / "set", kSmall);
  ASSERT_TRUE(made) << made.error().message;
  const auto found = files("set");
  EXPECT_EQ(found.size(), 22u);
  uint64_t number = 0, bytes = 0;
  std::map<std::string, int> of_class;
  for (const auto& [path, text] : found) {
    EXPECT_EQ(path, photo_path(number++, kSmall));
    ++of_class[fs::path(path).parent_path()];
    bytes += text.size();
    const auto header = read_header(std::as_bytes(std::span(text)), {});
    EXPECT_TRUE(header && header->format->name == "JPEG") << path;
  }
  EXPECT_EQ(of_class, (std::map<std::string, int>{
                          {"class0000", 6}, {"class0001", 6}, {"class0002", 5}, {"class0003", 5}}));
  EXPECT_EQ(made->files, 22u);
  EXPECT_EQ(made->bytes, bytes);
  EXPECT_LT(made->smallest, made->largest);
}

TEST_F(PhotoSet, ComesCloseToTheMeanSize) {
  PhotoSetSettings settings{.count = 40, .classes = 5, .mean_bytes = 12'000};
  const auto free = write_photo_set(folder_ / "free", settings);
  ASSERT_TRUE(free);
  EXPECT_NEAR(static_cast<double>(free->bytes) / 40, 12'000, 2'400);
  settings.mean_size = {240, 160};
  const auto given = write_photo_set(folder_ / "given", settings);
  ASSERT_TRUE(given);
  EXPECT_NEAR(static_cast<double>(given->bytes) / 40, 12'000, 2'400);
  EXPECT_NEAR(given->mean_size.width, 240, 40);
  EXPECT_NEAR(given->mean_size.height, 160, 30);
  EXPECT_LT(given->quality, free->quality);
}

TEST_F(PhotoSet, SortsAsItNumbersHoweverManyThereAre) {
  const PhotoSetSettings many{.count = 300'000'000, .classes = 20'000};
  std::string before;
  for (const uint64_t number : {0ull, 9ull, 99'999ull, 149'999'999ull, 299'999'999ull}) {
    const std::string path = photo_path(number, many);
    EXPECT_LT(before, path);
    before = path;
  }
  EXPECT_EQ(before, "class19999/299999999.jpg");
}

TEST_F(PhotoSet, RefusesAFolderWithSomethingInIt) {
  fs::create_directories(folder_ / "set");
  std::ofstream(folder_ / "set" / "note.txt") << "mine";
  EXPECT_NE(refusal("set", kSmall).find("something is in it"), std::string::npos);
  EXPECT_EQ(files("set").size(), 1u);
}

TEST_F(PhotoSet, RefusesNumbersThatMakeNoSense) {
  EXPECT_NE(refusal("a", {.count = 3, .classes = 4}).find("cannot fill 4 classes"),
            std::string::npos);
  EXPECT_NE(refusal("b", {.mean_bytes = 10}).find("give 1.0 KiB to"), std::string::npos);
  EXPECT_NE(refusal("c", {.mean_size = {4, 400}}).find("give sides of"), std::string::npos);
  EXPECT_NE(refusal("d", {.count = 4, .classes = 1, .mean_bytes = 200'000, .mean_size = {64, 64}})
                .find("give another size"),
            std::string::npos);
  EXPECT_NE(refusal("e", {.count = uint64_t{1} << 50}).find("it has room for"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PhotoSet, LeavesNothingBehindWhenCancelled) {
  PhotoSetSettings settings = kSmall;
  settings.threads = 1;
  settings.progress = [](uint64_t done, uint64_t) { return done < 5; };
  const auto made = write_photo_set(folder_ / "set", settings);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::cancelled);
  EXPECT_TRUE(fs::is_empty(folder_));
}

}  // namespace
}  // namespace foreload
