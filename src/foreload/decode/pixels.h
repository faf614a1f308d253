// SPDX-License-Identifier: Apache-2.0
//
// Pixels of 8 bits per channel, channels interleaved, and the memory that decoding and transforms
// work in. A Scratch is kept by each decoding thread and grows to what the largest image needed, so
// that nothing is allocated per sample after the first ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace foreload {

struct JpegDecompression;
struct JpegTables;

struct ImageSize {
  uint32_t width = 0;
  uint32_t height = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// A rectangle of whole pixels.
struct Region {
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t width = 0;
  uint32_t height = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

// A rectangle with edges between pixels, as Pillow's resize(box=) takes it.
struct Box {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;
};

// Somebody else's pixels.
struct PixelView {
  const uint8_t* data = nullptr;
  ImageSize size;
  uint32_t channels = 3;
  size_t stride = 0;  // bytes from one row to the next

  const uint8_t* row(uint32_t y) const { return data + y * stride; }
};

// Memory for pixels that is used again and again. Movable, for one thread.
class PixelBuffer {
 public:
  // Makes room for an image and returns its first byte; what was there is gone. Rows are `stride()`
  // apart, each followed by at least 64 bytes that may be read and written, so that SIMD may step
  // over the end, and preceded by `lead` such bytes, for decoders whose rows begin further left.
  uint8_t* reset(ImageSize size, uint32_t channels, size_t lead = 0);

  uint8_t* row(uint32_t y) { return memory_.get() + lead_ + y * stride_; }
  ImageSize size() const { return size_; }
  uint32_t channels() const { return channels_; }
  size_t stride() const { return stride_; }
  PixelView view() const { return {memory_.get() + lead_, size_, channels_, stride_}; }
  size_t capacity() const { return capacity_; }

 private:
  std::unique_ptr<uint8_t[]> memory_;
  size_t capacity_ = 0;
  ImageSize size_;
  uint32_t channels_ = 3;
  size_t stride_ = 0;
  size_t lead_ = 0;
};

// What one thread needs to decode and transform.
struct Scratch {
  PixelBuffer decoded;
  PixelBuffer other;                   // results of steps, in turn with `decoded`
  PixelBuffer stored;                  // an image as its file has it, before it is turned upright
  std::vector<uint8_t> bytes;          // rows as a decoder gives them, before they are converted
  std::shared_ptr<JpegTables> tables;  // of the last JPEG image; none before the first
  std::shared_ptr<JpegDecompression> jpeg;  // likewise
  std::vector<int32_t> coefficients;
  std::vector<uint32_t> bounds;
};

}  // namespace foreload
