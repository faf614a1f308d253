// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/pixels.h"

#include <cstring>

#include <gtest/gtest.h>

namespace foreload {
namespace {

TEST(PixelBufferTest, RowsDoNotOverlapWithTheSpaceAroundThem) {
  PixelBuffer buffer;
  buffer.reset({5, 3}, 3, 40);
  for (uint32_t y = 0; y < 3; ++y) {
    std::memset(buffer.row(y) - 40, 100, 40 + 15 + 64);
    std::memset(buffer.row(y), static_cast<int>(y), 15);
  }
  for (uint32_t y = 0; y < 3; ++y) {
    for (int i = 0; i < 15; ++i) EXPECT_EQ(buffer.row(y)[i], y);
  }
}

TEST(PixelBufferTest, LargerImageTakesMemoryOnce) {
  PixelBuffer buffer;
  buffer.reset({100, 100}, 3);
  const size_t capacity = buffer.capacity();
  const uint8_t* const first = buffer.row(0);
  buffer.reset({50, 100}, 3);
  EXPECT_EQ(buffer.capacity(), capacity);
  buffer.reset({100, 100}, 3);
  EXPECT_EQ(buffer.capacity(), capacity);
  EXPECT_EQ(buffer.row(0), first);
}

TEST(PixelBufferTest, ViewShowsTheSamePixels) {
  PixelBuffer buffer;
  const uint8_t* const first = buffer.reset({4, 2}, 1, 7);
  EXPECT_EQ(first, buffer.row(0));
  buffer.row(1)[3] = 42;
  const PixelView view = buffer.view();
  EXPECT_EQ(view.size, (ImageSize{4, 2}));
  EXPECT_EQ(view.channels, 1u);
  EXPECT_EQ(view.row(1)[3], 42);
}

TEST(PixelBufferTest, MovedBufferKeepsItsPixels) {
  PixelBuffer buffer;
  buffer.reset({2, 2}, 3)[0] = 9;
  const PixelBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.view().row(0)[0], 9);
}

}  // namespace
}  // namespace foreload
