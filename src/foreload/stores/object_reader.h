// SPDX-License-Identifier: Apache-2.0
//
// Bytes of objects, read while the caller waits: ranges of one, for the directory of an archive,
// which has to be read before there are samples; or extents of several, for whoever wants a sample
// and has no engine. A reader is for one thread.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "foreload/stores/store.h"

namespace foreload {

// All of them at once. Tries three times. Fails with `unreadable`, and names the object.
Result<std::vector<std::string>> read_extents(const Store& store,
                                              std::shared_ptr<const ObjectCatalog> objects,
                                              std::span<const Extent> extents,
                                              std::shared_ptr<Operations> operations = nullptr);

class ObjectReader {
 public:
  // Asks for size and version. Fails with `unreadable`.
  static Result<ObjectReader> open(std::shared_ptr<const Store> store, std::string name,
                                   const StoreCall& call);

  const StoredObject& object() const { return object_; }

  struct Range {
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  // As read_extents() does.
  Result<std::vector<std::string>> read(const std::vector<Range>& ranges) const;

 private:
  ObjectReader(std::shared_ptr<const Store> store, StoredObject object, StoreCall call)
      : store_(std::move(store)), object_(std::move(object)), call_(std::move(call)) {}

  std::shared_ptr<const Store> store_;
  StoredObject object_;
  StoreCall call_;
};

}  // namespace foreload
