// SPDX-License-Identifier: Apache-2.0
//
// AVX-512 with VNNI: weights split into three signed 8-bit limbs, four taps at a time multiplied by
// the 8-bit pixels and added by vpdpbusd.
#include "foreload/decode/pixel_kernels_x86.h"

#ifdef FORELOAD_X86_KERNELS
#include <immintrin.h>

#include "foreload/decode/row_writer.h"

#define FORELOAD_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")))
#define FORELOAD_AVX512_INLINE                                                          \
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c"), \
                 always_inline)) inline

namespace foreload {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

// The limbs of four taps, one byte each: limb[i] counts 256^i.
struct Limbs {
  int32_t limb[3];
};

Limbs split(const int32_t* weights) {
  uint32_t words[3] = {0, 0, 0};
  for (unsigned tap = 0; tap < 4; ++tap) {
    int32_t rest = weights[tap];
    for (uint32_t& word : words) {
      const auto limb = static_cast<int8_t>(rest);
      word |= uint32_t{static_cast<uint8_t>(limb)} << (8 * tap);
      rest = (rest - limb) >> 8;
    }
  }
  return {{static_cast<int32_t>(words[0]), static_cast<int32_t>(words[1]),
           static_cast<int32_t>(words[2])}};
}

// Four outputs at a time; for each four taps of theirs 16 words: each output's three limbs and 0.
void pack(const AxisWeights& weights, int32_t* packed) {
  for (size_t block = 0; block < weights.starts.size(); block += 4) {
    for (uint32_t tap = 0; tap < weights.stride; tap += 4) {
      for (size_t output = block; output < block + 4; ++output) {
        const Limbs limbs = split(&weights.weights[output * weights.stride + tap]);
        for (const int32_t limb : limbs.limb) *packed++ = limb;
        *packed++ = 0;
      }
    }
  }
}

// Sums by limb.
struct Sums {
  __m512i limb[3];
};

FORELOAD_AVX512_INLINE Sums zero_sums() {
  return {{_mm512_set1_epi32(kHalf), _mm512_setzero_si512(), _mm512_setzero_si512()}};
}

FORELOAD_AVX512_INLINE __m512i finish(const Sums& sums) {
  const __m512i high = _mm512_slli_epi32(sums.limb[2], 16);
  const __m512i middle = _mm512_slli_epi32(sums.limb[1], 8);
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(high, middle), sums.limb[0]);
  return _mm512_srai_epi32(sum, kWeightBits);
}

// In each 128-bit lane: bytes 0, 3, 6, 9, then 1, 4, 7, 10, then 2, 5, 8, 11, then zeros.
FORELOAD_AVX512_INLINE __m512i channel_order() {
  return _mm512_set4_epi32(-1, 0x0b080502, 0x0a070401, 0x09060300);
}

FORELOAD_AVX512_INLINE __m128i load16(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

FORELOAD_AVX512_INLINE void store16(uint8_t* to, __m128i bytes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}

template <unsigned kRows>
FORELOAD_AVX512 void horizontal_rows(const uint8_t* const* in, uint8_t* const* out,
                                     const AxisWeights& weights, const int32_t* packed) {
  const __m512i by_channel = channel_order();
  // In each lane the first three bytes of every four.
  const __m512i squeeze = _mm512_set4_epi32(-1, 0x0e0d0c0a, 0x09080605, 0x04020100);
  const uint32_t* starts = weights.starts.data();
  const uint32_t groups = weights.stride / 4;
  static_assert(kRows == 1 || kRows == 4);
  for (size_t block = 0; block < weights.starts.size(); block += 4) {
    Sums sums[kRows];
#pragma GCC unroll 4
    for (Sums& sum : sums) sum = zero_sums();
    const size_t at[4] = {size_t{3} * starts[block], size_t{3} * starts[block + 1],
                          size_t{3} * starts[block + 2], size_t{3} * starts[block + 3]};
    for (uint32_t group = 0; group < groups; ++group, packed += 16) {
      const __m512i all = _mm512_loadu_si512(packed);
      const __m512i limb0 = _mm512_shuffle_epi32(all, _MM_PERM_AAAA);
      const __m512i limb1 = _mm512_shuffle_epi32(all, _MM_PERM_BBBB);
      const __m512i limb2 = _mm512_shuffle_epi32(all, _MM_PERM_CCCC);
#pragma GCC unroll 4
      for (unsigned row = 0; row < kRows; ++row) {
        const uint8_t* from = in[row] + size_t{12} * group;
        __m512i pixels = _mm512_castsi128_si512(load16(from + at[0]));
        pixels = _mm512_inserti32x4(pixels, load16(from + at[1]), 1);
        pixels = _mm512_inserti32x4(pixels, load16(from + at[2]), 2);
        pixels = _mm512_inserti32x4(pixels, load16(from + at[3]), 3);
        pixels = _mm512_shuffle_epi8(pixels, by_channel);
        sums[row].limb[0] = _mm512_dpbusd_epi32(sums[row].limb[0], pixels, limb0);
        sums[row].limb[1] = _mm512_dpbusd_epi32(sums[row].limb[1], pixels, limb1);
        sums[row].limb[2] = _mm512_dpbusd_epi32(sums[row].limb[2], pixels, limb2);
      }
    }
    if constexpr (kRows == 4) {
      // Outputs side by side in a row, rows in the four lanes.
      const __m512i by_row =
          _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
      const __m512i bytes =
          _mm512_packus_epi16(_mm512_packs_epi32(finish(sums[0]), finish(sums[1])),
                              _mm512_packs_epi32(finish(sums[2]), finish(sums[3])));
      const __m512i rows = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(by_row, bytes), squeeze);
      store16(out[0] + block * 3, _mm512_castsi512_si128(rows));
      store16(out[1] + block * 3, _mm512_extracti32x4_epi32(rows, 1));
      store16(out[2] + block * 3, _mm512_extracti32x4_epi32(rows, 2));
      store16(out[3] + block * 3, _mm512_extracti32x4_epi32(rows, 3));
    } else {
      const __m512i words = _mm512_packs_epi32(finish(sums[0]), finish(sums[0]));
      const __m512i bytes = _mm512_packus_epi16(words, words);
      const __m512i by_output =
          _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
      const __m512i row = _mm512_shuffle_epi8(_mm512_permutexvar_epi32(by_output, bytes), squeeze);
      store16(out[0] + block * 3, _mm512_castsi512_si128(row));
    }
  }
}

FORELOAD_AVX512 void horizontal(const uint8_t* const* in, uint8_t* const* out, unsigned rows,
                                const AxisWeights& weights, const int32_t* packed) {
  if (rows == 4) return horizontal_rows<4>(in, out, weights, packed);
  for (unsigned row = 0; row < rows; ++row) {
    horizontal_rows<1>(in + row, out + row, weights, packed);
  }
}

// Four rows of 64 columns, four taps of a column in each word: columns 0-3, 4-7, 8-11 and 12-15 of
// each 128-bit lane, the order that packing back restores.
FORELOAD_AVX512_INLINE void add_rows(Sums* sums, const uint8_t* const* in, size_t x,
                                     const Limbs& limbs) {
  const __m512i a = _mm512_loadu_si512(in[0] + x);
  const __m512i b = _mm512_loadu_si512(in[1] + x);
  const __m512i c = _mm512_loadu_si512(in[2] + x);
  const __m512i d = _mm512_loadu_si512(in[3] + x);
  const __m512i left_early = _mm512_unpacklo_epi8(a, b);
  const __m512i right_early = _mm512_unpackhi_epi8(a, b);
  const __m512i left_late = _mm512_unpacklo_epi8(c, d);
  const __m512i right_late = _mm512_unpackhi_epi8(c, d);
  const __m512i taps[4] = {_mm512_unpacklo_epi16(left_early, left_late),
                           _mm512_unpackhi_epi16(left_early, left_late),
                           _mm512_unpacklo_epi16(right_early, right_late),
                           _mm512_unpackhi_epi16(right_early, right_late)};
#pragma GCC unroll 4
  for (unsigned limb = 0; limb < 3; ++limb) {
    const __m512i weight = _mm512_set1_epi32(limbs.limb[limb]);
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; ++i) {
      sums[i].limb[limb] = _mm512_dpbusd_epi32(sums[i].limb[limb], taps[i], weight);
    }
  }
}

FORELOAD_AVX512 void vertical(const uint8_t* const* in, const int32_t* weights, unsigned taps,
                              size_t bytes, uint8_t* out) {
  // Beyond these, splitting again for every 64 columns is little beside the rows read.
  Limbs few[16];
  for (unsigned tap = 0; tap < taps && tap < 64; tap += 4) few[tap / 4] = split(weights + tap);
  for (size_t x = 0; x < bytes; x += 64) {
    Sums sums[4];
#pragma GCC unroll 4
    for (Sums& sum : sums) sum = zero_sums();
    unsigned tap = 0;
    do {
      add_rows(sums, in + tap, x, tap < 64 ? few[tap / 4] : split(weights + tap));
      tap += 4;
    } while (tap < taps);
    const __m512i left = _mm512_packs_epi32(finish(sums[0]), finish(sums[1]));
    const __m512i right = _mm512_packs_epi32(finish(sums[2]), finish(sums[3]));
    _mm512_storeu_si512(out + x, _mm512_packus_epi16(left, right));
  }
}

struct Factor {
  __m512 high;
  __m512 low;
};

FORELOAD_AVX512_INLINE __m512 times(__m512 value, const Factor& factor) {
  return _mm512_fmadd_ps(value, factor.high, _mm512_mul_ps(value, factor.low));
}

FORELOAD_AVX512_INLINE Factor factor_of(const Reciprocal& reciprocal) {
  return {_mm512_set1_ps(reciprocal.high), _mm512_set1_ps(reciprocal.low)};
}

// What is done to 16 values.
struct Math {
  Factor to_unit;
  __m512 mean;
  Factor by_std;
};

FORELOAD_AVX512_INLINE __m512 compute(__m128i bytes, const Math& math) {
  const __m512 value = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
  return times(_mm512_sub_ps(times(value, math.to_unit), math.mean), math.by_std);
}

FORELOAD_AVX512_INLINE Math math_of(const ValueMath& math, unsigned channel) {
  return {factor_of(math.unit_factor()), _mm512_set1_ps(math.mean[channel]),
          factor_of(Reciprocal(math.std[channel]))};
}

// For values 16 * part and on of pixels whose channels are side by side.
FORELOAD_AVX512_INLINE Math math_of_part(const ValueMath& math, unsigned part) {
  float mean[16];
  float high[16];
  float low[16];
  for (unsigned i = 0; i < 16; ++i) {
    const unsigned channel = (16 * part + i) % 3;
    const Reciprocal reciprocal(math.std[channel]);
    mean[i] = math.mean[channel];
    high[i] = reciprocal.high;
    low[i] = reciprocal.low;
  }
  return {factor_of(math.unit_factor()),
          _mm512_loadu_ps(mean),
          {_mm512_loadu_ps(high), _mm512_loadu_ps(low)}};
}

template <PixelType kType>
FORELOAD_AVX512_INLINE void store(std::byte* out, __mmask16 which, __m512 values) {
  if constexpr (kType == PixelType::float32) {
    _mm512_mask_storeu_ps(out, which, values);
  } else if constexpr (kType == PixelType::float16) {
    _mm256_mask_storeu_epi16(
        out, which, _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  } else {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_mask_storeu_epi16(out, which, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }
}

// Sixteen pixels of three channels from 48 bytes: reds, greens, blues in the first three lanes.
FORELOAD_AVX512_INLINE __m512i separate(const uint8_t* row) {
  const __m512i quarters = _mm512_setr_epi32(0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12);
  const __m512i by_channel = channel_order();
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i pixels = _mm512_permutexvar_epi32(quarters, _mm512_loadu_si512(row));
  return _mm512_permutexvar_epi32(order, _mm512_shuffle_epi8(pixels, by_channel));
}

FORELOAD_AVX512_INLINE __mmask16 first_of(uint32_t count) {
  return static_cast<__mmask16>(count >= 16 ? 0xffff : (1u << count) - 1);
}

template <PixelType kType>
FORELOAD_AVX512 void write_planes(const RowWriter& writer, const uint8_t* row, uint32_t width,
                                  std::byte* out, size_t plane) {
  constexpr size_t kBytes = kType == PixelType::float32 ? 4 : 2;
  const Math red = math_of(writer.math, 0);
  const Math green = math_of(writer.math, 1);
  const Math blue = math_of(writer.math, 2);
  for (uint32_t x = 0; x < width; x += 16) {
    const __mmask16 which = first_of(width - x);
    const __m512i bytes = separate(row + size_t{3} * x);
    std::byte* to = out + x * kBytes;
    store<kType>(to, which, compute(_mm512_castsi512_si128(bytes), red));
    store<kType>(to + plane, which, compute(_mm512_extracti32x4_epi32(bytes, 1), green));
    store<kType>(to + 2 * plane, which, compute(_mm512_extracti32x4_epi32(bytes, 2), blue));
  }
}

template <PixelType kType>
FORELOAD_AVX512 void write_interleaved(const RowWriter& writer, const uint8_t* row, uint32_t width,
                                       std::byte* out) {
  constexpr size_t kBytes = kType == PixelType::float32 ? 4 : 2;
  const Math parts[3] = {math_of_part(writer.math, 0), math_of_part(writer.math, 1),
                         math_of_part(writer.math, 2)};
  const size_t values = size_t{3} * width;
  for (size_t x = 0; x < values; x += 48) {
#pragma GCC unroll 4
    for (unsigned i = 0; i < 3; ++i) {
      const size_t at = x + 16 * i;
      if (at >= values) break;
      const size_t rest = values - at;
      store<kType>(out + at * kBytes, first_of(rest < 16 ? static_cast<uint32_t>(rest) : 16),
                   compute(load16(row + at), parts[i]));
    }
  }
}

template <PixelType kType>
FORELOAD_AVX512 void write_numbers(const RowWriter& writer, const uint8_t* row, uint32_t width,
                                   std::byte* out, size_t plane) {
  if (writer.layout == Layout::chw) {
    write_planes<kType>(writer, row, width, out, plane);
  } else {
    write_interleaved<kType>(writer, row, width, out);
  }
}

FORELOAD_AVX512 void write_byte_planes(const uint8_t* row, uint32_t width, std::byte* out,
                                       size_t plane) {
  for (uint32_t x = 0; x < width; x += 16) {
    const __mmask16 which = first_of(width - x);
    const __m512i bytes = separate(row + size_t{3} * x);
    _mm_mask_storeu_epi8(out + x, which, _mm512_castsi512_si128(bytes));
    _mm_mask_storeu_epi8(out + x + plane, which, _mm512_extracti32x4_epi32(bytes, 1));
    _mm_mask_storeu_epi8(out + x + 2 * plane, which, _mm512_extracti32x4_epi32(bytes, 2));
  }
}

void write(const RowWriter& writer, const uint8_t* row, uint32_t width, std::byte* out,
           size_t plane) {
  if (writer.channels == 3 && writer.type == PixelType::uint8 && writer.layout == Layout::chw) {
    return write_byte_planes(row, width, out, plane);
  }
  if (writer.channels == 3 && writer.computable) {
    switch (writer.type) {
      case PixelType::float32:
        return write_numbers<PixelType::float32>(writer, row, width, out, plane);
      case PixelType::float16:
        return write_numbers<PixelType::float16>(writer, row, width, out, plane);
      case PixelType::bfloat16:
        return write_numbers<PixelType::bfloat16>(writer, row, width, out, plane);
      default:  // uint8; others have no writer
        break;
    }
  }
  kPortableKernels.write(writer, row, width, out, plane);
}

}  // namespace

const PixelKernels kAvx512Kernels{"AVX-512", pack, horizontal, vertical, write};

}  // namespace foreload
#endif
