// SPDX-License-Identifier: Apache-2.0
//
// The objects of a data-set index as a source wants to know them. Immutable; any thread may ask.
#pragma once

#include <memory>
#include <string_view>
#include <utility>

#include "foreload/dataset/index.h"
#include "foreload/stores/source.h"

namespace foreload {

class IndexCatalog final : public ObjectCatalog {
 public:
  explicit IndexCatalog(std::shared_ptr<const DatasetIndex> index) : index_(std::move(index)) {}
  std::string_view name(uint32_t object) const override { return index_->object_name(object); }
  uint64_t size(uint32_t object) const override { return index_->object_size(object); }
  uint64_t version(uint32_t object) const override { return index_->object_version(object); }

 private:
  std::shared_ptr<const DatasetIndex> index_;
};

}  // namespace foreload
