// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/png_filters.h"

#include <cstdlib>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace foreload {
namespace {

void undo_up(uint8_t* row, const uint8_t* above, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) row[i] = static_cast<uint8_t>(row[i] + above[i]);
}

uint8_t paeth(int left, int up, int corner) {
  const int to_left = std::abs(up - corner);
  const int to_up = std::abs(left - corner);
  const int to_corner = std::abs(left + up - 2 * corner);
  if (to_left <= to_up && to_left <= to_corner) return static_cast<uint8_t>(left);
  return static_cast<uint8_t>(to_up <= to_corner ? up : corner);
}

// One byte after the other, for pixels of kPixel bytes.
template <size_t kPixel>
struct ByBytes {
  static void left(uint8_t* row, size_t bytes) {
    for (size_t i = kPixel; i < bytes; ++i) row[i] = static_cast<uint8_t>(row[i] + row[i - kPixel]);
  }
  static void average(uint8_t* row, const uint8_t* above, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      const int before = i < kPixel ? 0 : row[i - kPixel];
      row[i] = static_cast<uint8_t>(row[i] + (before + above[i]) / 2);
    }
  }
  static void paeth_row(uint8_t* row, const uint8_t* above, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) {
      const bool first = i < kPixel;
      row[i] = static_cast<uint8_t>(
          row[i] + paeth(first ? 0 : row[i - kPixel], above[i], first ? 0 : above[i - kPixel]));
    }
  }
};

#if defined(__SSE2__)
// All bytes of a pixel at once, for pixels of 3 to 8 bytes. Bytes after the last one are read, and
// not written.
template <size_t kPixel>
struct ByPixels {
  static __m128i load(const uint8_t* from) {
    if constexpr (kPixel <= 4) {
      int32_t word;
      std::memcpy(&word, from, 4);
      return _mm_cvtsi32_si128(word);
    } else {
      return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    }
  }
  static void store(uint8_t* to, __m128i value) {
    uint64_t word;
    if constexpr (kPixel <= 4) {
      word = static_cast<uint32_t>(_mm_cvtsi128_si32(value));
    } else {
      _mm_storel_epi64(reinterpret_cast<__m128i*>(&word), value);
    }
    std::memcpy(to, &word, kPixel);
  }
  template <class Step>
  static void for_pixels(uint8_t* row, size_t bytes, const Step& step) {
    for (size_t i = 0; i < bytes; i += kPixel) store(row + i, step(i));
  }

  static void left(uint8_t* row, size_t bytes) {
    __m128i before = _mm_setzero_si128();
    for_pixels(row, bytes, [&](size_t i) { return before = _mm_add_epi8(before, load(row + i)); });
  }
  static void average(uint8_t* row, const uint8_t* above, size_t bytes) {
    const __m128i one = _mm_set1_epi8(1);
    __m128i before = _mm_setzero_si128();
    for_pixels(row, bytes, [&](size_t i) {
      const __m128i up = load(above + i);
      // The instruction rounds up, the filter down.
      const __m128i odd = _mm_and_si128(_mm_xor_si128(before, up), one);
      const __m128i mean = _mm_sub_epi8(_mm_avg_epu8(before, up), odd);
      return before = _mm_add_epi8(mean, load(row + i));
    });
  }
  static void paeth_row(uint8_t* row, const uint8_t* above, size_t bytes) {
    const __m128i zero = _mm_setzero_si128();
    const auto magnitude = [&](__m128i value) {
      return _mm_max_epi16(value, _mm_sub_epi16(zero, value));
    };
    const auto choose = [](__m128i mask, __m128i yes, __m128i no) {
      return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
    };
    __m128i before = zero;  // words, as the two below
    __m128i corner = zero;
    for_pixels(row, bytes, [&](size_t i) {
      const __m128i up = _mm_unpacklo_epi8(load(above + i), zero);
      const __m128i across = _mm_sub_epi16(up, corner);
      const __m128i down = _mm_sub_epi16(before, corner);
      const __m128i to_left = magnitude(across);
      const __m128i to_up = magnitude(down);
      const __m128i to_corner = magnitude(_mm_add_epi16(across, down));
      const __m128i least = _mm_min_epi16(to_corner, _mm_min_epi16(to_left, to_up));
      const __m128i nearest = choose(_mm_cmpeq_epi16(least, to_left), before,
                                     choose(_mm_cmpeq_epi16(least, to_up), up, corner));
      const __m128i sum = _mm_add_epi8(_mm_packus_epi16(nearest, nearest), load(row + i));
      before = _mm_unpacklo_epi8(sum, zero);
      corner = up;
      return sum;
    });
  }
};
#else
template <size_t kPixel>
using ByPixels = ByBytes<kPixel>;
#endif

template <class Kernels>
void undo(PngFilter filter, uint8_t* row, const uint8_t* above, size_t bytes, size_t pixel_bytes) {
  switch (filter) {
    case PngFilter::none:
      return;
    case PngFilter::left:
      return Kernels::left(row, bytes);
    case PngFilter::up:
      if (above != nullptr) undo_up(row, above, bytes);
      return;
    case PngFilter::average:
      if (above != nullptr) return Kernels::average(row, above, bytes);
      for (size_t i = pixel_bytes; i < bytes; ++i)
        row[i] = static_cast<uint8_t>(row[i] + row[i - pixel_bytes] / 2);
      return;
    case PngFilter::paeth:
      if (above != nullptr) return Kernels::paeth_row(row, above, bytes);
      return Kernels::left(row, bytes);  // nothing is nearer than the left
  }
}

}  // namespace

void undo_filter(PngFilter filter, uint32_t pixel_bytes, uint8_t* row, const uint8_t* above,
                 size_t bytes) {
  switch (pixel_bytes) {
    case 1:
      return undo<ByBytes<1>>(filter, row, above, bytes, 1);
    case 2:
      return undo<ByBytes<2>>(filter, row, above, bytes, 2);
    case 3:
      return undo<ByPixels<3>>(filter, row, above, bytes, 3);
    case 4:
      return undo<ByPixels<4>>(filter, row, above, bytes, 4);
    case 6:
      return undo<ByPixels<6>>(filter, row, above, bytes, 6);
    default:
      return undo<ByPixels<8>>(filter, row, above, bytes, 8);
  }
}

}  // namespace foreload
