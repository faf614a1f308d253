// SPDX-License-Identifier: Apache-2.0
//
// What every store must do beside reading (source_conformance.h): a kind of store is an entry that
// makes an empty one; a new kind is instantiated below and passes everything here.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/stores/store.h"

#include "answers.h"
#include "http_server.h"
#include "test_folder.h"

namespace foreload {
namespace {

struct StoreAtWork {
  std::shared_ptr<void> place;
  std::unique_ptr<Store> store;
};

struct StoreKind {
  std::string name;
  std::function<StoreAtWork()> make;
};

class StoreConformance : public testing::TestWithParam<StoreKind> {
 protected:
  void SetUp() override { at_work_ = GetParam().make(); }

  Store& store() { return *at_work_.store; }
  std::unique_ptr<Sink> create(const std::string& name) {
    auto sink = store().create(name);
    EXPECT_TRUE(sink) << sink.error().message;
    return sink ? std::move(*sink) : nullptr;
  }
  static Result<void> write(Sink& sink, const std::string& bytes) {
    return sink.write(std::as_bytes(std::span(bytes)));
  }
  void put(const std::string& name, const std::string& bytes) {
    const auto sink = create(name);
    ASSERT_TRUE(write(*sink, bytes));
    ASSERT_TRUE(sink->commit());
  }
  Result<StoredObject> stat(const std::string& name) {
    StoredObject object{name};
    FORELOAD_CHECK(store().stat({&object, 1}, {}, [](size_t, const std::string& why) {
      return Error{ErrorKind::unreadable, why};
    }));
    return object;
  }
  // All bytes of an object, through a source; what went wrong, if it cannot be read.
  std::string text(const std::string& name) {
    const auto object = stat(name);
    if (!object) return object.error().message;
    SourceSettings settings;
    settings.objects = std::make_shared<TestCatalog>(
        TestObjects{{name, std::string(object->size, '?'), false, false, object->version}});
    Answers answers;
    const auto source = store().open(std::move(settings), answers.callback());
    if (!source) return source.error().message;
    const Buffer buffer(object->size);
    const SourceRead read{1, {0, 0, object->size}, buffer.destination()};
    (*source)->submit({&read, 1});
    return answers.of(1).fault == Fault::none ? buffer.text() : answers.of(1).what;
  }
  std::vector<std::string> names(std::string_view below = "") {
    std::vector<std::string> names;
    const auto folders = store().list(below, {});
    for (const StoredFolder& folder : *folders) {
      for (const StoredObject& object : folder.objects) names.push_back(object.name);
    }
    return names;
  }

  StoreAtWork at_work_;
};

using Names = std::vector<std::string>;

TEST_P(StoreConformance, GivesBackWhatWasWritten) {
  const std::string bytes = test_bytes(1, 300'000);
  const auto sink = create("a/b/one");
  for (size_t from = 0; from < bytes.size(); from += 70'000)
    ASSERT_TRUE(write(*sink, bytes.substr(from, 70'000)));
  ASSERT_TRUE(sink->commit());
  EXPECT_EQ(stat("a/b/one")->size, bytes.size());
  EXPECT_EQ(text("a/b/one"), bytes);
}

TEST_P(StoreConformance, ListsFolderByFolder) {
  for (const char* name : {"2", "1", "b/x/1", "a/2", "a/1"}) put(name, "x");
  EXPECT_EQ(names(), (Names{"1", "2", "a/1", "a/2", "b/x/1"}));
  EXPECT_EQ(names("b"), (Names{"b/x/1"}));
}

TEST_P(StoreConformance, ShowsNothingBeforeItIsWhole) {
  put("one", "old");
  const auto sink = create("one");
  ASSERT_TRUE(write(*sink, "new and longer"));
  EXPECT_EQ(text("one"), "old");
  ASSERT_TRUE(sink->commit());
  EXPECT_EQ(text("one"), "new and longer");
  EXPECT_EQ(names(), (Names{"one"}));
}

TEST_P(StoreConformance, AbortLeavesNoTrace) {
  put("one", "old");
  const auto sink = create("one");
  ASSERT_TRUE(write(*sink, "new"));
  sink->abort();
  sink->abort();
  EXPECT_EQ(text("one"), "old");
  ASSERT_TRUE(write(*create("two"), "gone with its sink"));
  EXPECT_EQ(names(), (Names{"one"}));
}

TEST_P(StoreConformance, TheLastOneWins) {
  const auto first = create("one");
  const auto second = create("one");
  ASSERT_TRUE(write(*first, "first"));
  ASSERT_TRUE(write(*second, "second"));
  ASSERT_TRUE(second->commit());
  ASSERT_TRUE(first->commit());
  EXPECT_EQ(text("one"), "first");
}

TEST_P(StoreConformance, AnEmptyObject) {
  ASSERT_TRUE(create("empty")->commit());
  EXPECT_EQ(stat("empty")->size, 0);
  EXPECT_EQ(text("empty"), "");
}

TEST_P(StoreConformance, ANewObjectHasAnotherVersion) {
  put("one", "old");
  const uint64_t before = stat("one")->version;
  put("one", "longer");
  EXPECT_NE(stat("one")->version, before);
}

TEST_P(StoreConformance, RemovesAnObject) {
  put("one", "x");
  put("two", "x");
  ASSERT_TRUE(store().remove("one"));
  EXPECT_EQ(names(), (Names{"two"}));
  EXPECT_EQ(store().remove("one").error().kind, ErrorKind::unreadable);
  EXPECT_FALSE(stat("one"));
}

TEST_P(StoreConformance, NamesStayInTheStore) {
  for (const char* name : {"", "/etc/x", "../x", "a/../../x"}) {
    EXPECT_EQ(store().create(name).error().kind, ErrorKind::invalid) << name;
    EXPECT_EQ(store().remove(name).error().kind, ErrorKind::invalid) << name;
  }
}

StoreAtWork files() {
  auto folder = std::make_shared<TestFolder>();
  auto store = *open_store(folder->path().native());
  return {folder, std::move(store)};
}

StoreAtWork web() {
  struct Place {
    TestFolder folder;
    HttpServer server{folder.path()};
  };
  auto place = std::make_shared<Place>();
  auto store = *open_store(place->server.address());
  return {place, std::move(store)};
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreConformance,
                         testing::Values(StoreKind{"Files", files}, StoreKind{"Web", web}),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace foreload
