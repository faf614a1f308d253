// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/unsupported.h"

#include <fstream>

#include <gtest/gtest.h>

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

class UnsupportedTest : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(root_ / name, std::ios::binary) << bytes;
    return root_ / name;
  }
  static void expect_said(const std::string& message, const std::string& words) {
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(UnsupportedTest, WhatIsNotThereIsNotKnown) {
  EXPECT_EQ(why_not_dataset(root_ / "missing.tar"), "");
}

TEST_F(UnsupportedTest, FilesAreKnownByTheirNames) {
  for (const auto& [name, words] : std::vector<std::pair<std::string, std::string>>{
           {"a.tar", "a tar archive"},
           {"a.TGZ", "a tar archive"},
           {"a.h5", "an HDF5 file"},
           {"a.parquet", "a Parquet file"},
           {"a.arrow", "an Arrow file"},
           {"a.tfrecord-00000-of-00010", "a TFRecord file"},
           {"a.mds", "an MDS shard"},
           {"a.beton", "an FFCV file"},
           {"data.mdb", "an LMDB database"},
           {"a.npy", "one numpy array"},
           {"a.npz", "a numpy archive"},
           {"a.pkl", "a pickle"}})
    expect_said(why_not_dataset(write(name, "?")), words);
}

TEST_F(UnsupportedTest, FilesAreKnownByTheirFirstBytes) {
  expect_said(why_not_dataset(write("1", std::string(257, '\0') + "ustar")), "a tar archive");
  expect_said(why_not_dataset(write("3", "\x89HDF\r\n\x1a\n")), "an HDF5 file");
  expect_said(why_not_dataset(write("4", "PAR1")), "a Parquet file");
  expect_said(why_not_dataset(write("5", std::string(16, '\0') + "\xDE\xC0\xEF\xBE")), "an LMDB");
  expect_said(why_not_dataset(write("6", "\xFF\xD8\xFF\xE0")), "a JPEG image");
}

TEST_F(UnsupportedTest, ATableIsNoFileList) {
  expect_said(why_not_dataset(write("a.csv", "path,label\na.jpg,1\n")), "write a file list");
  expect_said(why_not_dataset(write("a.jsonl", "{\"path\": \"a.jpg\"}\n")), "write a file list");
  EXPECT_EQ(why_not_dataset(write("b.csv", "a.jpg\nb.jpg\n")), "");
  EXPECT_EQ(why_not_dataset(write("list.txt", "a,b.jpg\n")), "");
}

TEST_F(UnsupportedTest, FoldersAreKnownByTheirFiles) {
  expect_said(why_not_dataset(root_, {{".tar", 12}, {".json", 1}}),
              "its files are tar archives (12 of .tar), which foreload does not read yet");
  expect_said(why_not_dataset(root_, {{".zip", 3}}), "give one of them by itself");
  EXPECT_EQ(why_not_dataset(root_, {{".npy", 12}}), "");
  EXPECT_EQ(why_not_dataset(root_, {{".txt", 2}, {".tar", 1}}), "");
  expect_said(why_not_dataset(root_, {}), "there is no file in it");
}

TEST_F(UnsupportedTest, FoldersOfOtherLoadersAreKnownByTheirIndex) {
  write("index.json", R"({"shards": [], "version": 2})");
  expect_said(why_not_dataset(root_, {{".json", 1}}), "MosaicML Streaming");
  write("index.json", R"({"chunks": [], "config": {}})");
  expect_said(why_not_dataset(root_, {{".bin", 1}, {".json", 1}}), "LitData");
}

TEST(EndingOf, KeepsWhatIsPacked) {
  EXPECT_EQ(ending_of("a.b.TAR.gz"), ".tar.gz");
  EXPECT_EQ(ending_of("a.jpg"), ".jpg");
  EXPECT_EQ(ending_of("README"), "");
  EXPECT_EQ(ending_of(".hidden"), "");
}

TEST(MostFrequent, ComesFirst) {
  EXPECT_EQ(most_frequent({{".a", 1}, {".b", 3'000}, {"", 2}}),
            "3,000 of .b, 2 of no extension, 1 of .a");
  EXPECT_EQ(most_frequent({{".a", 5}, {".b", 4}, {".c", 3}, {".d", 2}, {".e", 1}, {".f", 1}}),
            "5 of .a, 4 of .b, 3 of .c, 2 of .d and 2 others");
}

}  // namespace
}  // namespace foreload
