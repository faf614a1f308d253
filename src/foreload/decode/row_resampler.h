// SPDX-License-Identifier: Apache-2.0
//
// A resize that hands out its result row by row, so that what comes after it works on a row that is
// still in the cache. Keeps the half-resized rows that the next outputs need, no more.
//
// For one thread; uses the scratch it was given until it is gone.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "foreload/decode/pixel_kernels.h"
#include "foreload/decode/pixels.h"
#include "foreload/decode/resample_weights.h"

namespace foreload {

struct Resizing {
  Axis x;
  Axis y;
  Interpolation interpolation = Interpolation::bilinear;
  bool flip = false;  // left to right

  // The part of the input that the wanted outputs use.
  Region needs() const;
  // torch resizes columns first, always. Pillow 13 resizes rows first where the height shrinks by
  // more than twice as many pixels as the width, and columns first otherwise. Each pass rounds, so
  // the order shows in the result.
  bool vertical_first() const;
};

class RowResampler {
 public:
  // `in` holds the input from `origin` on. REQUIRES: it covers resizing.needs(); rows of `in` are
  // followed by 64 bytes that may be read; resizing, `in` and scratch outlive this object.
  RowResampler(const PixelView& in, const Region& origin, const Resizing& resizing,
               const PixelKernels& kernels, Scratch& scratch);

  // Writes the next row, resizing.x.count pixels, and up to 64 bytes after it. REQUIRES: called at
  // most resizing.y.count times.
  void next(uint8_t* out);

 private:
  enum class Way : uint8_t { nearest, copy, columns, rows, columns_then_rows, rows_then_columns };

  void prepare_nearest(const Region& needs, Scratch& scratch);
  void prepare_weights(const Region& needs, Scratch& scratch);
  void prepare_rows(const Region& needs, Scratch& scratch);

  // Resizes columns of up to kRowsAtOnce rows.
  void resize_columns(const uint8_t* const* in, uint8_t* const* out, unsigned rows);
  // Resizes rows: makes one output row of `bytes` bytes from the rows that `row_at` names.
  template <class RowAt>
  void resize_rows(uint32_t output, RowAt row_at, size_t bytes, uint8_t* out);

  void next_nearest(uint8_t* out);
  // Resizes the columns of the next rows, of those that are there, and keeps them.
  void keep_rows(unsigned rows_there);
  void next_by_columns(uint8_t* out);
  void next_columns_then_rows(uint8_t* out);
  void next_rows_then_columns(uint8_t* out);
  uint8_t* kept_row(uint32_t number) { return kept_ + size_t{number % kept_rows_} * kept_stride_; }

  PixelView in_;  // what resizing.needs() says, no more
  const Resizing& resizing_;
  const PixelKernels& kernels_;
  Way way_ = Way::copy;
  uint32_t output_ = 0;  // rows handed out
  AxisWeights x_weights_;
  AxisWeights y_weights_;
  const int32_t* packed_ = nullptr;
  std::span<uint32_t> x_inputs_;  // nearest
  std::span<uint32_t> y_inputs_;
  size_t row_bytes_ = 0;
  // Rows resized along one axis, or finished ones waiting; a ring, by number.
  uint8_t* kept_ = nullptr;
  size_t kept_stride_ = 0;
  uint32_t kept_rows_ = 0;
  uint32_t done_ = 0;       // rows with a number below this one were put into the ring
  uint8_t* raw_ = nullptr;  // kRowsAtOnce rows, resized vertically only
  size_t raw_stride_ = 0;
  std::array<const uint8_t*, 64> few_rows_;
  std::vector<const uint8_t*> many_rows_;
};

}  // namespace foreload
