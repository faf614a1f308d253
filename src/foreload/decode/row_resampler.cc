// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/row_resampler.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <limits>

namespace foreload {
namespace {

// A row and the bytes after it that kernels may touch, aligned.
size_t stride_of(size_t bytes) {
  return (bytes + 64 + 63) / 64 * 64;
}

void copy_pixels(const uint8_t* from, uint32_t pixels, uint32_t channels, bool flip, uint8_t* to) {
  if (!flip) {
    std::memcpy(to, from, size_t{pixels} * channels);
  } else if (channels == 1) {
    std::reverse_copy(from, from + pixels, to);
  } else {
    for (const uint8_t* pixel = from + size_t{3} * pixels; pixel != from; to += 3) {
      pixel -= 3;
      std::memcpy(to, pixel, 3);
    }
  }
}

void grow(std::vector<uint8_t>& bytes, size_t size) {
  if (bytes.size() < size) bytes.resize(size);
}

}  // namespace

Region Resizing::needs() const {
  const auto along = [this](const Axis& axis) {
    if (axis.identity()) return InputRange{axis.first, axis.first + axis.count};
    return inputs_of(axis, interpolation);
  };
  const InputRange columns = along(x);
  const InputRange rows = along(y);
  return {columns.begin, rows.begin, columns.end - columns.begin, rows.end - rows.begin};
}

bool Resizing::vertical_first() const {
  if (y.rule == ResizeRule::torch) return false;
  const int64_t fewer_rows = int64_t{y.input} - y.outputs;
  const int64_t fewer_columns = int64_t{x.input} - x.outputs;
  return fewer_rows > 0 && fewer_rows > 2 * fewer_columns;
}

RowResampler::RowResampler(const PixelView& in, const Region& origin, const Resizing& resizing,
                           const PixelKernels& kernels, Scratch& scratch)
    : in_(in), resizing_(resizing), kernels_(kernels) {
  assert(in.channels == 3 || in.channels == 1);
  const Region needs = resizing.needs();
  in_.data += size_t{needs.y - origin.y} * in.stride + size_t{needs.x - origin.x} * in.channels;
  in_.size = {needs.width, needs.height};
  row_bytes_ = size_t{resizing.x.count} * in.channels;
  if (resizing.interpolation == Interpolation::nearest) {
    prepare_nearest(needs, scratch);
    return;
  }
  const bool columns = !resizing.x.identity();
  if (resizing.y.identity()) {
    way_ = columns ? Way::columns : Way::copy;
  } else if (!columns && !resizing.flip) {
    way_ = Way::rows;
  } else {
    way_ = resizing.vertical_first() ? Way::rows_then_columns : Way::columns_then_rows;
  }
  if (way_ == Way::copy) return;
  prepare_weights(needs, scratch);
  prepare_rows(needs, scratch);
}

void RowResampler::prepare_nearest(const Region& needs, Scratch& scratch) {
  way_ = Way::nearest;
  const Axis& x = resizing_.x;
  const Axis& y = resizing_.y;
  if (scratch.bounds.size() < size_t{x.count} + y.count) {
    scratch.bounds.resize(size_t{x.count} + y.count);
  }
  x_inputs_ = std::span(scratch.bounds).subspan(0, x.count);
  y_inputs_ = std::span(scratch.bounds).subspan(x.count, y.count);
  compute_nearest(x, resizing_.flip, needs.x, x_inputs_);
  compute_nearest(y, false, needs.y, y_inputs_);
}

void RowResampler::prepare_weights(const Region& needs, Scratch& scratch) {
  const Axis& x = resizing_.x;
  const Axis& y = resizing_.y;
  const Interpolation how = resizing_.interpolation;
  const WeightRoom x_room = x.identity() ? WeightRoom{} : room_for(x, how);
  const WeightRoom y_room = y.identity() ? WeightRoom{} : room_for(y, how);
  if (scratch.bounds.size() < x_room.bounds + y_room.bounds) {
    scratch.bounds.resize(x_room.bounds + y_room.bounds);
  }
  // Packed weights take as many words as plain ones.
  if (scratch.coefficients.size() < 2 * x_room.weights + y_room.weights) {
    scratch.coefficients.resize(2 * x_room.weights + y_room.weights);
  }
  const auto words = std::span(scratch.coefficients);
  const auto bounds = std::span(scratch.bounds);
  if (!x.identity()) {
    x_weights_ =
        compute_weights(x, how, resizing_.flip, needs.x, needs.width,
                        words.subspan(0, x_room.weights), bounds.subspan(0, x_room.bounds));
    int32_t* packed = words.data() + x_room.weights;
    if (in_.channels == 3) kernels_.pack(x_weights_, packed);
    packed_ = packed;
  }
  if (!y.identity()) {
    y_weights_ = compute_weights(y, how, false, needs.y, std::numeric_limits<uint32_t>::max(),
                                 words.subspan(2 * x_room.weights, y_room.weights),
                                 bounds.subspan(x_room.bounds, y_room.bounds));
  }
}

void RowResampler::prepare_rows(const Region& needs, Scratch& scratch) {
  kept_stride_ = stride_of(row_bytes_);
  raw_stride_ = stride_of(size_t{needs.width} * in_.channels);
  kept_rows_ = kRowsAtOnce + (way_ == Way::columns_then_rows ? y_weights_.stride : 0);
  const size_t kept = kept_rows_ * kept_stride_;
  grow(scratch.bytes, kept + (way_ == Way::rows_then_columns ? kRowsAtOnce * raw_stride_ : 0));
  kept_ = scratch.bytes.data();
  raw_ = kept_ + kept;
  if (y_weights_.stride > few_rows_.size()) many_rows_.resize(y_weights_.stride);
}

void RowResampler::resize_columns(const uint8_t* const* in, uint8_t* const* out, unsigned rows) {
  if (resizing_.x.identity()) {
    for (unsigned row = 0; row < rows; ++row) {
      copy_pixels(in[row], resizing_.x.count, in_.channels, resizing_.flip, out[row]);
    }
  } else if (in_.channels == 3) {
    kernels_.horizontal(in, out, rows, x_weights_, packed_);
  } else {
    horizontal_grey(in, out, rows, x_weights_);
  }
}

template <class RowAt>
void RowResampler::resize_rows(uint32_t output, RowAt row_at, size_t bytes, uint8_t* out) {
  const uint32_t start = y_weights_.starts[output];
  const uint32_t count = y_weights_.counts[output];
  const uint32_t taps = (count + 3) / 4 * 4;
  const uint8_t** rows = many_rows_.empty() ? few_rows_.data() : many_rows_.data();
  for (uint32_t tap = 0; tap < taps; ++tap) rows[tap] = row_at(start + std::min(tap, count - 1));
  kernels_.vertical(rows, &y_weights_.weights[size_t{output} * y_weights_.stride], taps, bytes,
                    out);
}

void RowResampler::next_nearest(uint8_t* out) {
  const uint8_t* from = in_.row(y_inputs_[output_]);
  if (in_.channels == 1) {
    for (const uint32_t x : x_inputs_) *out++ = from[x];
    return;
  }
  for (const uint32_t x : x_inputs_) {
    std::memcpy(out, from + size_t{3} * x, 3);
    out += 3;
  }
}

void RowResampler::keep_rows(unsigned rows_there) {
  const unsigned rows = std::min(kRowsAtOnce, rows_there - done_);
  std::array<const uint8_t*, kRowsAtOnce> from{};
  std::array<uint8_t*, kRowsAtOnce> to{};
  for (unsigned row = 0; row < rows; ++row) {
    from[row] = in_.row(done_ + row);
    to[row] = kept_row(done_ + row);
  }
  resize_columns(from.data(), to.data(), rows);
  done_ += rows;
}

void RowResampler::next_by_columns(uint8_t* out) {
  if (output_ == done_) keep_rows(resizing_.y.count);
  std::memcpy(out, kept_row(output_), row_bytes_);
}

void RowResampler::next_columns_then_rows(uint8_t* out) {
  const uint32_t end = y_weights_.starts[output_] + y_weights_.counts[output_];
  while (done_ < end) keep_rows(in_.size.height);
  resize_rows(output_, [this](uint32_t y) { return kept_row(y); }, row_bytes_, out);
}

void RowResampler::next_rows_then_columns(uint8_t* out) {
  if (output_ == done_) {
    const unsigned rows = std::min(kRowsAtOnce, resizing_.y.count - done_);
    std::array<const uint8_t*, kRowsAtOnce> from{};
    std::array<uint8_t*, kRowsAtOnce> to{};
    for (unsigned row = 0; row < rows; ++row) {
      uint8_t* raw = raw_ + row * raw_stride_;
      resize_rows(
          done_ + row, [this](uint32_t y) { return in_.row(y); },
          size_t{in_.size.width} * in_.channels, raw);
      from[row] = raw;
      to[row] = kept_row(done_ + row);
    }
    resize_columns(from.data(), to.data(), rows);
    done_ += rows;
  }
  std::memcpy(out, kept_row(output_), row_bytes_);
}

void RowResampler::next(uint8_t* out) {
  assert(output_ < resizing_.y.count);
  switch (way_) {
    case Way::nearest:
      next_nearest(out);
      break;
    case Way::copy:
      copy_pixels(in_.row(output_), resizing_.x.count, in_.channels, resizing_.flip, out);
      break;
    case Way::columns:
      next_by_columns(out);
      break;
    case Way::rows:
      resize_rows(output_, [this](uint32_t y) { return in_.row(y); }, row_bytes_, out);
      break;
    case Way::columns_then_rows:
      next_columns_then_rows(out);
      break;
    case Way::rows_then_columns:
      next_rows_then_columns(out);
      break;
  }
  ++output_;
}

}  // namespace foreload
