// SPDX-License-Identifier: Apache-2.0
//
// What is the web's own; what every store and source must do is in the suites of all of them.
#include "foreload/stores/http_store.h"

#include <gtest/gtest.h>

#include "answers.h"
#include "http_server.h"
#include "test_folder.h"

namespace foreload {
namespace {

class HttpStoreTest : public testing::Test {
 protected:
  void serve(HttpServer::Settings settings = {}) {
    server_ = std::make_unique<HttpServer>(folder_.path(), settings);
    auto store = open_store(server_->address() + "/");
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::move(*store);
  }
  // Reads a range of an object that was listed so.
  SourceAnswer read(const TestObject& listed, const Extent& extent) {
    SourceSettings settings;
    settings.objects = std::make_shared<TestCatalog>(TestObjects{listed});
    Answers answers;
    const auto source = store_->open(std::move(settings), answers.callback());
    const Buffer buffer(extent.length);
    const SourceRead one{1, extent, buffer.destination()};
    (*source)->submit({&one, 1});
    return answers.of(1);
  }
  StoredObject stat(const std::string& name) {
    StoredObject object{name};
    EXPECT_TRUE(store_->stat({&object, 1}, {}, [](size_t, const std::string& why) {
      return Error{ErrorKind::unreadable, why};
    }));
    return object;
  }

  TestFolder folder_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<Store> store_;
};

TEST_F(HttpStoreTest, ConnectionsAreUsedAgain) {
  TestObjects objects;
  for (int i = 0; i < 300; ++i) objects.push_back({std::to_string(i), "bytes"});
  for (const TestObject& object : objects) folder_.add(object);
  serve();
  SourceSettings settings;
  settings.objects = std::make_shared<TestCatalog>(objects);
  settings.most_in_flight = 8;
  Answers answers;
  const auto source = store_->open(std::move(settings), answers.callback());
  std::vector<SourceRead> reads;
  std::vector<Buffer> buffers;
  for (uint32_t i = 0; i < 300; ++i) {
    buffers.emplace_back(5);
    reads.push_back({i, {i, 0, 5}, buffers.back().destination()});
  }
  (*source)->submit(reads);
  ASSERT_TRUE(answers.wait_for_count(300));
  EXPECT_EQ(answers.count_of(Fault::none), 300u);
  EXPECT_LE(server_->connections(), 8u);
}

TEST_F(HttpStoreTest, WhatChangedSinceItWasListedIsNotRead) {
  folder_.write("one", "old bytes");
  serve();
  const StoredObject listed = stat("one");
  const TestObject object{"one", std::string(listed.size, '?'), false, false, listed.version};
  EXPECT_EQ(read(object, {0, 0, 9}).fault, Fault::none);
  EXPECT_EQ(read(object, {0, 4, 5}).fault, Fault::none);
  folder_.write("one", "new bytes, and more of them");
  EXPECT_EQ(read(object, {0, 0, 9}).fault, Fault::changed);
  EXPECT_EQ(read(object, {0, 4, 5}).fault, Fault::changed);
}

TEST_F(HttpStoreTest, AServerWithoutRangesGivesWholeObjectsOnly) {
  folder_.write("one", "bytes");
  serve({.ranges = false});
  const TestObject object{"one", "bytes"};
  EXPECT_EQ(read(object, {0, 0, 5}).fault, Fault::none);
  const SourceAnswer part = read(object, {0, 1, 2});
  EXPECT_EQ(part.fault, Fault::permanent);
  EXPECT_NE(part.what.find("ranges"), std::string::npos) << part.what;
}

TEST_F(HttpStoreTest, WhatTheServerSaysDecidesWhetherToTryAgain) {
  const TestObject object{"one", "bytes"};
  for (const auto& [status, fault] : std::vector<std::pair<int, Fault>>{{404, Fault::permanent},
                                                                        {403, Fault::permanent},
                                                                        {500, Fault::transient},
                                                                        {502, Fault::transient},
                                                                        {503, Fault::throttled},
                                                                        {429, Fault::throttled}}) {
    serve({.always = status});
    const SourceAnswer answer = read(object, {0, 0, 5});
    EXPECT_EQ(answer.fault, fault) << status;
    EXPECT_EQ(answer.what, fmt::format("the server says HTTP status {}", status));
  }
}

TEST_F(HttpStoreTest, NobodyThereIsTransient) {
  serve();
  server_.reset();
  const SourceAnswer answer = read({"one", "bytes"}, {0, 0, 5});
  EXPECT_EQ(answer.fault, Fault::transient);
  EXPECT_NE(answer.what.find("while reading"), std::string::npos) << answer.what;
  EXPECT_EQ(store_->list("", {}).error().kind, ErrorKind::unreadable);
}

TEST_F(HttpStoreTest, AnAddressNamesAFolderOrAnObject) {
  folder_.write("a/list.txt", "0123456789");
  serve();
  const auto first_bytes = [&](const std::string& name) {
    return *(*open_store(server_->address() + name))->first_bytes(4);
  };
  EXPECT_EQ(first_bytes("/a/list.txt"), "0123");
  EXPECT_EQ(first_bytes("/a"), std::nullopt);
  EXPECT_EQ(first_bytes("/a/"), std::nullopt);
  EXPECT_EQ(first_bytes("/b"), std::nullopt);
  EXPECT_EQ((*open_store("HTTP://Host/A//"))->uri(), "http://host/A");
  for (const char* uri : {"http://", "https://", "http:///a"})
    EXPECT_EQ(open_store(uri).error().kind, ErrorKind::invalid) << uri;
}

TEST_F(HttpStoreTest, FoldersThatChangedAreFound) {
  folder_.write("a/1", "x");
  folder_.write("b/1", "x");
  serve();
  auto folders = store_->list("", {});
  ASSERT_TRUE(folders) << folders.error().message;
  EXPECT_EQ(*store_->changed(*folders, {}), std::nullopt);
  folder_.write("b/2", "x");
  EXPECT_EQ(*store_->changed(*folders, {}), "b");
}

TEST_F(HttpStoreTest, NamesMayBeOdd) {
  for (const char* name : {"a b", "50%", "x&y", "ä+?#", "q'\""}) folder_.write(name, name);
  serve();
  const auto folders = store_->list("", {});
  ASSERT_EQ(folders->size(), 1u);
  EXPECT_EQ(folders->front().objects.size(), 5u);
  for (const StoredObject& object : folders->front().objects)
    EXPECT_EQ(stat(object.name).size, object.name.size()) << object.name;
}

TEST_F(HttpStoreTest, WithoutPagesNothingIsListed) {
  serve({.pages = false});
  const auto folders = store_->list("", {});
  ASSERT_FALSE(folders);
  EXPECT_NE(folders.error().message.find("give a file list"), std::string::npos)
      << folders.error().message;
}

}  // namespace
}  // namespace foreload
