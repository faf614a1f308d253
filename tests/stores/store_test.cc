// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/store.h"

#include <gtest/gtest.h>

#include "test_folder.h"

namespace foreload {
namespace {

void expect_said(const std::string& uri, const std::string& words) {
  const auto store = open_store(uri);
  ASSERT_FALSE(store) << uri;
  EXPECT_EQ(store.error().kind, ErrorKind::invalid);
  EXPECT_NE(store.error().message.find(words), std::string::npos) << store.error().message;
  EXPECT_EQ(store.error().message.find('\n'), std::string::npos);
}

TEST(OpenStore, AddressesAreKnownByTheirScheme) {
  EXPECT_EQ(open_store("s3://bucket/train").error().message,
            "cannot read s3://bucket/train as a data set: it is an S3 bucket, which foreload does "
            "not read yet (it reads paths, file:// and http://); copy it (aws s3 sync "
            "s3://bucket/train DIR) "
            "or mount it, and give the folder");
  expect_said("gs://b", "Google Cloud Storage");
  expect_said("AZ://c/x", "Azure");
  expect_said("ftp://host/x.tar", "an FTP server");
  expect_said("hdfs://n/x", "HDFS");
  expect_said("swift://n/x", "a URL");
  expect_said("file://host/x", "write the path alone, or file:///path");
}

TEST(OpenStore, PathsAndFileAddressesAreOneStore) {
  const TestFolder folder;
  const std::string path = std::filesystem::canonical(folder.path());
  EXPECT_EQ((*open_store(path))->uri(), "file://" + path);
  EXPECT_EQ((*open_store(path + "/."))->uri(), "file://" + path);
  EXPECT_EQ((*open_store("file://" + path))->uri(), "file://" + path);
  EXPECT_EQ((*open_store("file://" + path))->where(), path);
  EXPECT_EQ((*open_store("/data/s3://x"))->where(), "/data/s3://x");  // a path, if an odd one
}

}  // namespace
}  // namespace foreload
