// SPDX-License-Identifier: Apache-2.0
//
// One column of a data set that lies in memory or in a mapped file: rows of one size, anywhere, and
// a loop that copies some of them into a batch. Rows are in one stretch (an array), in several (the
// chunks of an Arrow column) or each for itself (a list of arrays). Items of a row may lie apart,
// as in a transposed array; in the batch they follow one another.
//
// A column owns nothing: whoever makes it keeps the memory. Any number of threads may read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

// Consecutive rows at equal distances.
struct RowStretch {
  uint64_t first = 0;               // number of its first row
  const std::byte* data = nullptr;  // where that row begins
  int64_t stride = 0;               // bytes from a row to the next; 0 and less are fine
};

struct RowDimension {
  uint64_t count = 0;
  int64_t stride = 0;  // bytes
};

// Where the items of a row lie, seen from the beginning of the row; outermost dimension first.
struct RowLayout {
  uint64_t item_bytes = 0;
  std::vector<RowDimension> dimensions;
};

class RowColumn {
 public:
  // Fails with `invalid` if the stretches do not begin with row 0 and ascend, or if a row has more
  // bytes than can be counted.
  static Result<RowColumn> of(std::vector<RowStretch> stretches, uint64_t rows,
                              const RowLayout& layout);

  uint64_t rows() const { return rows_; }
  uint64_t row_bytes() const { return row_bytes_; }

  // Copies rows, one behind the other. REQUIRES: each number is below rows(); `to` has room for
  // numbers.size() * row_bytes().
  void gather(std::span<const int64_t> numbers, std::byte* to) const;
  // Asks the system to read the pages of these rows, and does not wait for them.
  // REQUIRES: each number is below rows().
  void advise(std::span<const int64_t> numbers) const;

 private:
  RowColumn() = default;

  const std::byte* at(uint64_t row) const;
  template <class Copy>
  void each(std::span<const int64_t> numbers, std::byte* to, Copy copy) const;
  template <size_t bytes>
  void gather_fixed(std::span<const int64_t> numbers, std::byte* to) const;
  std::byte* copy_items(const std::byte* from, std::byte* to, size_t dimension) const;

  std::vector<RowStretch> stretches_;
  uint64_t usual_rows_ = 1;  // of a stretch
  uint64_t rows_ = 0;
  uint64_t row_bytes_ = 0;
  uint64_t run_ = 0;                      // bytes that lie together
  std::vector<RowDimension> dimensions_;  // of runs; none: a row is one run
  int64_t begin_ = 0, end_ = 0;           // bytes that a row spans, seen from where it begins
};

}  // namespace foreload
