// SPDX-License-Identifier: Apache-2.0
#include "foreload/rows/column.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace foreload {
namespace {

// Rows whose first bytes are fetched into the CPU's cache before their turn.
constexpr size_t kRowsAhead = 8;

template <class Item>
std::byte* copy_apart(const std::byte* from, std::byte* to, const RowDimension& dimension) {
  for (uint64_t i = 0; i < dimension.count; ++i) {
    std::memcpy(to, from, sizeof(Item));
    from += dimension.stride;
    to += sizeof(Item);
  }
  return to;
}

// Neighbouring dimensions that could be one become one; the innermost run is as long as it can be.
void simplify(uint64_t& run, std::vector<RowDimension>& dimensions) {
  std::erase_if(dimensions, [](const RowDimension& each) { return each.count == 1; });
  while (!dimensions.empty() && dimensions.back().stride == static_cast<int64_t>(run)) {
    run *= dimensions.back().count;
    dimensions.pop_back();
  }
  for (size_t inner = dimensions.size(); inner-- > 1;) {
    RowDimension& outer = dimensions[inner - 1];
    const RowDimension& last = dimensions[inner];
    if (outer.stride != last.stride * static_cast<int64_t>(last.count)) continue;
    outer = {outer.count * last.count, last.stride};
    dimensions.erase(dimensions.begin() + static_cast<ptrdiff_t>(inner));
  }
}

}  // namespace

Result<RowColumn> RowColumn::of(std::vector<RowStretch> stretches, uint64_t rows,
                                const RowLayout& layout) {
  const bool ascend =
      std::is_sorted(stretches.begin(), stretches.end(),
                     [](const RowStretch& a, const RowStretch& b) { return a.first <= b.first; });
  if (rows > 0 && (stretches.empty() || stretches.front().first != 0 || !ascend ||
                   stretches.back().first >= rows))
    return fail(ErrorKind::invalid, "stretches of rows must begin with row 0 and ascend");
  RowColumn column;
  column.rows_ = rows;
  column.row_bytes_ = layout.item_bytes;
  for (const RowDimension& dimension : layout.dimensions) {
    if (__builtin_mul_overflow(column.row_bytes_, dimension.count, &column.row_bytes_) ||
        column.row_bytes_ > uint64_t{INT64_MAX})
      return fail(ErrorKind::invalid, "a row has more bytes than can be counted");
  }
  if (column.row_bytes_ > 0) {
    column.end_ = static_cast<int64_t>(layout.item_bytes);
    for (const auto& [count, stride] : layout.dimensions) {
      const int64_t span = static_cast<int64_t>(count - 1) * stride;
      (stride < 0 ? column.begin_ : column.end_) += span;
    }
    column.run_ = layout.item_bytes;
    column.dimensions_ = layout.dimensions;
    simplify(column.run_, column.dimensions_);
  }
  if (stretches.size() > 1) column.usual_rows_ = stretches[1].first;
  column.stretches_ = std::move(stretches);
  return column;
}

const std::byte* RowColumn::at(uint64_t row) const {
  const RowStretch* stretch = stretches_.data();
  if (const size_t count = stretches_.size(); count > 1) {
    const size_t guess = std::min<uint64_t>(row / usual_rows_, count - 1);
    if (stretch[guess].first <= row && (guess + 1 == count || row < stretch[guess + 1].first))
      stretch += guess;
    else
      stretch = &*std::prev(std::upper_bound(
          stretches_.begin(), stretches_.end(), row,
          [](uint64_t wanted, const RowStretch& each) { return wanted < each.first; }));
  }
  return stretch->data + static_cast<int64_t>(row - stretch->first) * stretch->stride;
}

template <class Copy>
void RowColumn::each(std::span<const int64_t> numbers, std::byte* to, Copy copy) const {
  const size_t count = numbers.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kRowsAhead < count)
      __builtin_prefetch(at(static_cast<uint64_t>(numbers[i + kRowsAhead])));
    copy(at(static_cast<uint64_t>(numbers[i])), to);
    to += row_bytes_;
  }
}

template <size_t bytes>
void RowColumn::gather_fixed(std::span<const int64_t> numbers, std::byte* to) const {
  each(numbers, to,
       [](const std::byte* from, std::byte* place) { std::memcpy(place, from, bytes); });
}

std::byte* RowColumn::copy_items(const std::byte* from, std::byte* to, size_t dimension) const {
  const RowDimension& here = dimensions_[dimension];
  if (dimension + 1 == dimensions_.size()) {
    switch (run_) {
      case 1:
        return copy_apart<uint8_t>(from, to, here);
      case 2:
        return copy_apart<uint16_t>(from, to, here);
      case 4:
        return copy_apart<uint32_t>(from, to, here);
      case 8:
        return copy_apart<uint64_t>(from, to, here);
      default:
        break;
    }
    for (uint64_t i = 0; i < here.count; ++i, from += here.stride, to += run_)
      std::memcpy(to, from, run_);
    return to;
  }
  for (uint64_t i = 0; i < here.count; ++i, from += here.stride)
    to = copy_items(from, to, dimension + 1);
  return to;
}

void RowColumn::gather(std::span<const int64_t> numbers, std::byte* to) const {
  if (row_bytes_ == 0) return;
  if (!dimensions_.empty())
    return each(numbers, to,
                [this](const std::byte* from, std::byte* place) { copy_items(from, place, 0); });
  switch (row_bytes_) {
    case 1:
      return gather_fixed<1>(numbers, to);
    case 2:
      return gather_fixed<2>(numbers, to);
    case 4:
      return gather_fixed<4>(numbers, to);
    case 8:
      return gather_fixed<8>(numbers, to);
    case 16:
      return gather_fixed<16>(numbers, to);
    case 32:
      return gather_fixed<32>(numbers, to);
    case 64:
      return gather_fixed<64>(numbers, to);
    default:
      return each(numbers, to, [this](const std::byte* from, std::byte* place) {
        std::memcpy(place, from, row_bytes_);
      });
  }
}

void RowColumn::advise(std::span<const int64_t> numbers) const {
  if (row_bytes_ == 0) return;
  static const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (const int64_t number : numbers) {
    const std::byte* const row = at(static_cast<uint64_t>(number));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(row + begin_) / page * page;
    // Advice only: what it does not reach is read when it is touched.
    ::madvise(reinterpret_cast<void*>(begin), reinterpret_cast<uintptr_t>(row + end_) - begin,
              MADV_WILLNEED);
  }
}

}  // namespace foreload
