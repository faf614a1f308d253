// SPDX-License-Identifier: Apache-2.0
#include "foreload/rows/column.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

using Bytes = std::vector<std::byte>;
using Numbers = std::vector<int64_t>;

// Memory in which no two neighbours are equal.
Bytes some_bytes(size_t count) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(mix64(i));
  return bytes;
}

RowColumn column(std::vector<RowStretch> stretches, uint64_t rows, const RowLayout& layout) {
  auto made = RowColumn::of(std::move(stretches), rows, layout);
  EXPECT_TRUE(made) << made.error().message;
  return std::move(*made);
}

Bytes gathered(const RowColumn& from, const Numbers& numbers) {
  Bytes to(numbers.size() * from.row_bytes());
  from.gather(numbers, to.data());
  return to;
}

// A plain loop over the items of a row.
void append_row(const std::byte* row, const RowLayout& layout, size_t dimension, Bytes& to) {
  if (dimension == layout.dimensions.size()) {
    to.insert(to.end(), row, row + layout.item_bytes);
    return;
  }
  const auto& [count, stride] = layout.dimensions[dimension];
  for (uint64_t i = 0; i < count; ++i)
    append_row(row + static_cast<int64_t>(i) * stride, layout, dimension + 1, to);
}

TEST(RowColumn, CopiesRowsInTheOrderAskedFor) {
  const Bytes memory = some_bytes(30);
  const RowColumn rows = column({{0, memory.data(), 10}}, 3, {10, {}});
  Bytes expected(memory.begin() + 20, memory.end());
  expected.insert(expected.end(), memory.begin(), memory.begin() + 10);
  EXPECT_EQ(gathered(rows, {2, 0}), expected);
}

TEST(RowColumn, GivesARowAsOftenAsItIsAskedFor) {
  const Bytes memory = some_bytes(4);
  const RowColumn rows = column({{0, memory.data(), 1}}, 4, {1, {}});
  EXPECT_EQ(gathered(rows, {3, 3, 3}), Bytes(3, memory[3]));
}

TEST(RowColumn, FindsRowsOfUnequalStretches) {
  const Bytes memory = some_bytes(600);
  // Rows 0..9, 10..10, 11..99 at three places; only the first has the usual length.
  const RowColumn rows = column(
      {{0, memory.data() + 300, 2}, {10, memory.data() + 7, 2}, {11, memory.data() + 400, 2}}, 100,
      {2, {}});
  for (const auto& [row, place] : std::vector<std::pair<int64_t, size_t>>{
           {0, 300}, {9, 318}, {10, 7}, {11, 400}, {42, 462}, {99, 576}}) {
    EXPECT_EQ(gathered(rows, {row}), Bytes(memory.begin() + static_cast<ptrdiff_t>(place),
                                           memory.begin() + static_cast<ptrdiff_t>(place) + 2))
        << row;
  }
}

TEST(RowColumn, RowsMayLieBackwardsOrOnTopOfEachOther) {
  const Bytes memory = some_bytes(12);
  const RowColumn backwards = column({{0, memory.data() + 8, -4}}, 3, {4, {}});
  EXPECT_EQ(gathered(backwards, {2}), Bytes(memory.begin(), memory.begin() + 4));
  const RowColumn same = column({{0, memory.data() + 8, 0}}, 3, {4, {}});
  EXPECT_EQ(gathered(same, {1}), Bytes(memory.begin() + 8, memory.end()));
}

TEST(RowColumn, RowsWithoutBytesAreNotTouched) {
  const RowColumn rows = column({{0, nullptr, 0}}, 5, {4, {{3, 4}, {0, 4}}});
  EXPECT_EQ(rows.row_bytes(), 0U);
  EXPECT_TRUE(gathered(rows, {0, 4}).empty());
  rows.advise(Numbers{0, 4});
}

TEST(RowColumn, ADataSetMayHaveNoRows) {
  const RowColumn rows = column({}, 0, {8, {}});
  EXPECT_EQ(rows.rows(), 0U);
  EXPECT_TRUE(gathered(rows, {}).empty());
}

TEST(RowColumn, RefusesStretchesThatDoNotAscendFromRowZero) {
  const Bytes memory = some_bytes(8);
  const std::byte* const at = memory.data();
  const RowLayout layout{1, {}};
  EXPECT_FALSE(RowColumn::of({}, 1, layout));
  EXPECT_FALSE(RowColumn::of({{1, at, 1}}, 3, layout));
  EXPECT_FALSE(RowColumn::of({{0, at, 1}, {2, at, 1}, {2, at, 1}}, 3, layout));
  EXPECT_FALSE(RowColumn::of({{0, at, 1}, {3, at, 1}}, 3, layout));
}

TEST(RowColumn, RefusesRowsWhoseBytesCannotBeCounted) {
  const auto made =
      RowColumn::of({{0, nullptr, 0}}, 1, {8, {{uint64_t{1} << 40, 0}, {uint64_t{1} << 40, 0}}});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
}

// Random shapes, orders of dimensions, gaps, directions and stretches.
TEST(RowColumn, EqualsAPlainLoop) {
  const Bytes memory = some_bytes(1 << 16);
  for (uint64_t world = 0; world < 2000; ++world) {
    SCOPED_TRACE(world);
    uint64_t draws = 0;
    const auto draw = [&](uint64_t below) { return mix64(world * 1000 + draws++) % below; };
    constexpr std::array<uint64_t, 8> kItems = {1, 2, 3, 4, 8, 12, 16, 32};
    RowLayout layout{kItems[draw(kItems.size())], {}};
    int64_t stride = static_cast<int64_t>(layout.item_bytes);
    for (uint64_t left = draw(4); left > 0; --left) {
      const uint64_t count = draw(10) == 0 ? 0 : 1 + draw(4);
      if (draw(3) == 0) stride += static_cast<int64_t>(draw(5));
      layout.dimensions.push_back({count, draw(4) == 0 ? -stride : stride});
      stride *= static_cast<int64_t>(std::max<uint64_t>(1, count));
    }
    for (size_t i = layout.dimensions.size(); i > 1; --i)  // transposed in any way
      std::swap(layout.dimensions[i - 1], layout.dimensions[draw(i)]);
    const uint64_t rows = 1 + draw(20);
    std::vector<RowStretch> stretches;
    for (uint64_t first = 0; first < rows; first += 1 + draw(8)) {
      const int64_t step = static_cast<int64_t>(draw(64)) - 32;
      stretches.push_back({first, memory.data() + (1 << 15) + draw(1000), step});
    }
    const RowColumn made = column(stretches, rows, layout);
    Numbers numbers(draw(30));
    Bytes expected;
    for (int64_t& number : numbers) {
      number = static_cast<int64_t>(draw(rows));
      const auto after = std::find_if(stretches.begin(), stretches.end(), [&](const auto& each) {
        return each.first > static_cast<uint64_t>(number);
      });
      const RowStretch& in = *std::prev(after);
      append_row(in.data + (number - static_cast<int64_t>(in.first)) * in.stride, layout, 0,
                 expected);
    }
    ASSERT_EQ(gathered(made, numbers), expected);
  }
}

TEST(RowColumn, AdviceReachesTheLastPageOfAMapping) {
  constexpr size_t kBytes = 8192;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const RowColumn rows = column({{0, static_cast<std::byte*>(memory), 4095}}, 2, {4097, {}});
  rows.advise(Numbers{0, 1});
  EXPECT_EQ(gathered(rows, {1}), Bytes(4097, std::byte{0}));
  ::munmap(memory, kBytes);
}

}  // namespace
}  // namespace foreload
