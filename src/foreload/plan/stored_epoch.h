// SPDX-License-Identifier: Apache-2.0
//
// An epoch whose ids lie in memory.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "foreload/plan/order.h"

namespace foreload {

template <class Id>
class StoredEpoch final : public EpochOrder {
 public:
  explicit StoredEpoch(std::vector<Id> ids, std::vector<uint64_t> batch_ends = {})
      : ids_(std::move(ids)), batch_ends_(std::move(batch_ends)) {}
  uint64_t size() const override { return ids_.size(); }
  void read(uint64_t first, std::span<uint64_t> out) const override {
    assert(first + out.size() <= ids_.size());
    std::copy_n(ids_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
  }
  std::span<const uint64_t> batch_ends() const override { return batch_ends_; }

 private:
  std::vector<Id> ids_;
  std::vector<uint64_t> batch_ends_;
};

}  // namespace foreload
