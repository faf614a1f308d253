// SPDX-License-Identifier: Apache-2.0
//
// A temporary folder with the objects of a test as files; an object that hangs is a FIFO that
// nobody writes to. Opening it waits forever.
#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "foreload/stores/file_store.h"

#include "../temporary_folder.h"
#include "answers.h"

namespace foreload {

class TestFolder : public TemporaryFolder {
 public:
  TestFolder() = default;
  explicit TestFolder(const TestObjects& objects) {
    for (const TestObject& object : objects) add(object);
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path() / name).parent_path());
    std::ofstream(path() / name, std::ios::binary) << bytes;
  }

  void add(const TestObject& object) const {
    if (object.missing) return;
    if (!object.hangs) return write(object.name, object.bytes);
    if (::mkfifo((path() / object.name).c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
  }
};

// Null where the system does not have the engine.
inline std::unique_ptr<Source> open_test_folder(const TestFolder& folder, IoEngine engine,
                                                std::shared_ptr<const ObjectCatalog> objects,
                                                unsigned most_in_flight, Source::Answered answered,
                                                std::optional<unsigned> open_folders = {}) {
  SourceSettings settings;
  settings.objects = std::move(objects);
  settings.engine = engine;
  settings.most_in_flight = most_in_flight;
  settings.waits_for_pipes = true;
  settings.open_folders = open_folders;
  auto source = FileStore(folder.path()).open(std::move(settings), std::move(answered));
  if (!source) return nullptr;
  return std::move(*source);
}

}  // namespace foreload
