// SPDX-License-Identifier: Apache-2.0
//
// An array of which only the parts that were written to take memory, in small pages: a data set may
// have a billion samples, of which a run touches few. What was never written reads as T{}.
//
// For one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace foreload {

template <class T>
class SparseArray {
 public:
  explicit SparseArray(uint64_t size)
      : untouched_(std::make_unique<Page>()),
        pages_((size + kPage - 1) / kPage, untouched_.get()) {}

  // REQUIRES: an index below the size.
  const T& operator[](uint64_t i) const { return (*pages_[i / kPage])[i % kPage]; }
  // The same, to be written to.
  T& touch(uint64_t i) {
    Page*& page = pages_[i / kPage];
    if (page == untouched_.get()) page = touched_.emplace_back(std::make_unique<Page>()).get();
    return (*page)[i % kPage];
  }

  uint64_t bytes() const { return pages_.size() * sizeof(Page*) + touched_.size() * sizeof(Page); }

 private:
  static constexpr uint64_t kPage = 64;  // entries
  using Page = std::array<T, kPage>;

  std::unique_ptr<Page> untouched_;  // all T{}; readers need not ask whether there is a page
  std::vector<Page*> pages_;
  std::vector<std::unique_ptr<Page>> touched_;
};

}  // namespace foreload
