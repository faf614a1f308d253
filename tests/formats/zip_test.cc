// SPDX-License-Identifier: Apache-2.0
//
// Data sets that are no folders of files: archives, and what lies behind a web server.
#include "foreload/formats/zip.h"

#include <map>

#include <gtest/gtest.h>

#include "../stores/http_server.h"
#include "../stores/test_folder.h"
#include "zip_maker.h"

namespace foreload {
namespace {

using Samples = std::map<std::string, std::pair<std::string, std::string>>;  // class and bytes

class OddDatasets : public testing::Test {
 protected:
  // What is in a data set, as its index says; `file` has the bytes of its only object.
  static Samples samples(const std::string& uri, const std::string& file) {
    const auto index = open_dataset({uri}, {});
    EXPECT_TRUE(index) << index.error().message;
    Samples found;
    for (uint64_t sample = 0; index && sample < index->samples(); ++sample) {
      const Part part = index->part(sample, 0);
      found[std::string(index->sample_name(sample))] = {
          std::string(index->class_name(index->label(sample))),
          file.substr(part.offset, part.length)};
    }
    return found;
  }

  const TestFolder folder_;
  const std::string zip_ = make_zip({{"b/2.jpg", "two"},
                                     {"a/", ""},
                                     {"a/deep/1.jpg", "one"},
                                     {"a/notes.txt", "no sample"},
                                     {"b/0.jpg", "zero"}});
  const Samples expected_{
      {"a/deep/1.jpg", {"a", "one"}}, {"b/0.jpg", {"b", "zero"}}, {"b/2.jpg", {"b", "two"}}};
};

TEST_F(OddDatasets, MembersOfAnArchiveHaveTheClassesOfTheirFolders) {
  folder_.write("x.zip", zip_);
  EXPECT_EQ(samples(folder_.path() / "x.zip", zip_), expected_);
  folder_.write("no ending", zip_);
  EXPECT_EQ(samples(folder_.path() / "no ending", zip_), expected_);
}

TEST_F(OddDatasets, AnArchiveMayLieBehindAWebServer) {
  folder_.write("a/x.zip", zip_);
  const HttpServer server(folder_.path());
  EXPECT_EQ(samples(server.address() + "/a/x.zip", zip_), expected_);
}

TEST_F(OddDatasets, WhatIsNoArchiveSaysSo) {
  folder_.write("x.zip", "nonsense");
  const auto index = open_dataset({folder_.path() / "x.zip"}, {});
  ASSERT_FALSE(index);
  EXPECT_NE(index.error().message.find("damaged zip archive"), std::string::npos);
}

TEST_F(OddDatasets, AnArchiveThatChangedIsAnotherDataSet) {
  folder_.write("x.zip", zip_);
  const auto before = find_dataset({folder_.path() / "x.zip"}, {});
  folder_.write("x.zip", make_zip({{"b/2.jpg", "two"}}));
  const auto after = find_dataset({folder_.path() / "x.zip"}, {});
  EXPECT_NE(before->identity, after->identity);
}

TEST_F(OddDatasets, AFolderMayLieBehindAWebServer) {
  for (const char* name : {"train/a/1.jpg", "train/b/2.jpg", "train/b/3.jpg"})
    folder_.write(name, name);
  const HttpServer server(folder_.path());
  const auto index = open_dataset({server.address() + "/train"}, {});
  ASSERT_TRUE(index) << index.error().message;
  EXPECT_EQ(index->store(), server.address() + "/train");
  EXPECT_EQ(index->samples(), 3u);
  EXPECT_EQ(index->classes(), 2u);
  EXPECT_EQ(index->sample_name(2), "b/3.jpg");
  EXPECT_EQ(index->sample_size(2), 13u);
}

TEST_F(OddDatasets, AListMayNameAddressesOrBeOne) {
  for (const char* name : {"1.jpg", "deep/2.jpg"}) folder_.write(name, name);
  const HttpServer server(folder_.path());
  folder_.write("here.txt", fmt::format("{0}/1.jpg\t4\n{0}/deep/2.jpg\t5\n", server.address()));
  folder_.write("there.txt", "1.jpg\t4\ndeep/2.jpg\t5\n");
  for (const std::string& list :
       {(folder_.path() / "here.txt").native(), server.address() + "/there.txt"}) {
    const auto index = open_dataset({list}, {});
    ASSERT_TRUE(index) << index.error().message;
    EXPECT_EQ(index->store(), server.address());
    EXPECT_EQ(index->sample_name(1), "deep/2.jpg");
    EXPECT_EQ(index->sample_size(1), 10u);
    EXPECT_EQ(index->label(1), 5u);
  }
  folder_.write("mixed.txt", server.address() + "/1.jpg\n1.jpg\n");
  const auto mixed = open_dataset({(folder_.path() / "mixed.txt").native()}, {});
  ASSERT_FALSE(mixed);
  EXPECT_NE(mixed.error().message.find("line 2: '1.jpg' is not in the same store"),
            std::string::npos)
      << mixed.error().message;
}

}  // namespace
}  // namespace foreload
