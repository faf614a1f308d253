// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/pixels.h"

namespace foreload {
namespace {

constexpr size_t kAfterRow = 64;
constexpr size_t kAlignment = 64;

}  // namespace

uint8_t* PixelBuffer::reset(ImageSize size, uint32_t channels, size_t lead) {
  size_ = size;
  channels_ = channels;
  lead_ = lead;
  const size_t row = lead + size_t{size.width} * channels + kAfterRow;
  stride_ = (row + kAlignment - 1) / kAlignment * kAlignment;
  const size_t needed = stride_ * size.height;
  if (needed > capacity_) {
    memory_.reset();  // before the new one is taken: images may be large
    capacity_ = 0;
    memory_ = std::make_unique_for_overwrite<uint8_t[]>(needed);
    capacity_ = needed;
  }
  return memory_.get() + lead_;
}

}  // namespace foreload
