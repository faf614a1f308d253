// SPDX-License-Identifier: Apache-2.0
//
// AVX2: pixels widened to 16 bits, weights split into two signed 12-bit limbs, pairs of taps
// multiplied and added by vpmaddwd.
#include "foreload/decode/pixel_kernels_x86.h"

#ifdef FORELOAD_X86_KERNELS
#include <immintrin.h>

#include <cstring>

#include "foreload/decode/row_writer.h"

#define FORELOAD_AVX2 __attribute__((target("avx2,fma,f16c")))
#define FORELOAD_AVX2_INLINE __attribute__((target("avx2,fma,f16c"), always_inline)) inline

namespace foreload {
namespace {

constexpr int kLimbBits = 12;
constexpr int32_t kHalf = 1 << (kWeightBits - 1);

// The limbs of two taps, as the two halves of a word.
struct Limbs {
  int32_t high;
  int32_t low;
};

Limbs split(int32_t first, int32_t second) {
  const auto low = [](int32_t weight) {
    return (weight & ((1 << kLimbBits) - 1)) - ((weight >> (kLimbBits - 1) & 1) << kLimbBits);
  };
  const auto high = [low](int32_t weight) { return (weight - low(weight)) >> kLimbBits; };
  const auto pair = [](int32_t a, int32_t b) {
    return static_cast<int32_t>((static_cast<uint32_t>(b) << 16) |
                                (static_cast<uint32_t>(a) & 0xffff));
  };
  return {pair(high(first), high(second)), pair(low(first), low(second))};
}

// Four outputs at a time; for each four taps of theirs 16 words: outputs 0, 2, 1, 3, each with the
// high limbs of taps 0-1 and 2-3 and the low limbs of both.
void pack(const AxisWeights& weights, int32_t* packed) {
  for (size_t block = 0; block < weights.starts.size(); block += 4) {
    for (uint32_t tap = 0; tap < weights.stride; tap += 4) {
      for (const size_t output : {block, block + 2, block + 1, block + 3}) {
        const int32_t* weight = &weights.weights[output * weights.stride + tap];
        const Limbs early = split(weight[0], weight[1]);
        const Limbs late = split(weight[2], weight[3]);
        *packed++ = early.high;
        *packed++ = late.high;
        *packed++ = early.low;
        *packed++ = late.low;
      }
    }
  }
}

FORELOAD_AVX2_INLINE __m256i load_pair(const uint8_t* low, const uint8_t* high) {
  return _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)), 1);
}

FORELOAD_AVX2_INLINE __m256i finish(__m256i high, __m256i low) {
  const __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(high, kLimbBits), low);
  return _mm256_srai_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(kHalf)), kWeightBits);
}

// High and low sums of two outputs' channels.
struct Sums {
  __m256i high;
  __m256i low;
};

FORELOAD_AVX2_INLINE void add_taps(Sums& sums, __m256i pixels, __m256i weights) {
  const __m256i early =
      _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1,  //
                       0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1);
  const __m256i late =
      _mm256_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1,  //
                       6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
  const __m256i first = _mm256_shuffle_epi8(pixels, early);
  const __m256i second = _mm256_shuffle_epi8(pixels, late);
  sums.high = _mm256_add_epi32(
      sums.high, _mm256_add_epi32(_mm256_madd_epi16(first, _mm256_shuffle_epi32(weights, 0x00)),
                                  _mm256_madd_epi16(second, _mm256_shuffle_epi32(weights, 0x55))));
  sums.low = _mm256_add_epi32(
      sums.low, _mm256_add_epi32(_mm256_madd_epi16(first, _mm256_shuffle_epi32(weights, 0xaa)),
                                 _mm256_madd_epi16(second, _mm256_shuffle_epi32(weights, 0xff))));
}

template <unsigned kRows>
FORELOAD_AVX2 void horizontal_rows(const uint8_t* const* in, uint8_t* const* out,
                                   const AxisWeights& weights, const int32_t* packed) {
  const __m256i squeeze =
      _mm256_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                       0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const uint32_t* starts = weights.starts.data();
  const uint32_t groups = weights.stride / 4;
  for (size_t block = 0; block < weights.starts.size(); block += 4) {
    Sums even[kRows];
    Sums odd[kRows];
#pragma GCC unroll 4
    for (unsigned row = 0; row < kRows; ++row) {
      even[row] = odd[row] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    }
    const size_t at[4] = {size_t{3} * starts[block], size_t{3} * starts[block + 1],
                          size_t{3} * starts[block + 2], size_t{3} * starts[block + 3]};
    for (uint32_t group = 0; group < groups; ++group, packed += 16) {
      const __m256i even_weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed));
      const __m256i odd_weights = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed + 8));
#pragma GCC unroll 4
      for (unsigned row = 0; row < kRows; ++row) {
        const uint8_t* from = in[row] + size_t{12} * group;
        add_taps(even[row], load_pair(from + at[0], from + at[2]), even_weights);
        add_taps(odd[row], load_pair(from + at[1], from + at[3]), odd_weights);
      }
    }
#pragma GCC unroll 4
    for (unsigned row = 0; row < kRows; ++row) {
      const __m256i words = _mm256_packs_epi32(finish(even[row].high, even[row].low),
                                               finish(odd[row].high, odd[row].low));
      const __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(words, words), squeeze);
      uint8_t* to = out[row] + block * 3;
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 6), _mm256_extracti128_si256(bytes, 1));
    }
  }
}

FORELOAD_AVX2 void horizontal(const uint8_t* const* in, uint8_t* const* out, unsigned rows,
                              const AxisWeights& weights, const int32_t* packed) {
  unsigned row = 0;
  for (; row + 2 <= rows; row += 2) horizontal_rows<2>(in + row, out + row, weights, packed);
  if (row < rows) horizontal_rows<1>(in + row, out + row, weights, packed);
}

// 32 columns by two rows of 16-bit pairs: columns 0-3, 4-7, 8-11 and 12-15 of each 128-bit lane,
// the order that packing back restores.
FORELOAD_AVX2_INLINE void add_rows(Sums* sums, __m256i first, __m256i second, __m256i high,
                                   __m256i low) {
  const __m256i zero = _mm256_setzero_si256();
  const __m256i left = _mm256_unpacklo_epi8(first, second);
  const __m256i right = _mm256_unpackhi_epi8(first, second);
  const __m256i pairs[4] = {_mm256_unpacklo_epi8(left, zero), _mm256_unpackhi_epi8(left, zero),
                            _mm256_unpacklo_epi8(right, zero), _mm256_unpackhi_epi8(right, zero)};
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) {
    sums[i].high = _mm256_add_epi32(sums[i].high, _mm256_madd_epi16(pairs[i], high));
    sums[i].low = _mm256_add_epi32(sums[i].low, _mm256_madd_epi16(pairs[i], low));
  }
}

FORELOAD_AVX2 void vertical(const uint8_t* const* in, const int32_t* weights, unsigned taps,
                            size_t bytes, uint8_t* out) {
  // Beyond these, splitting again for every 32 columns is little beside the rows read.
  Limbs few[16];
  for (unsigned tap = 0; tap < taps && tap < 32; tap += 2) {
    few[tap / 2] = split(weights[tap], weights[tap + 1]);
  }
  for (size_t x = 0; x < bytes; x += 32) {
    Sums sums[4];
#pragma GCC unroll 4
    for (Sums& sum : sums) sum = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (unsigned tap = 0; tap < taps; tap += 2) {
      const Limbs limbs = tap < 32 ? few[tap / 2] : split(weights[tap], weights[tap + 1]);
      add_rows(sums, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in[tap] + x)),
               _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in[tap + 1] + x)),
               _mm256_set1_epi32(limbs.high), _mm256_set1_epi32(limbs.low));
    }
    const __m256i left =
        _mm256_packs_epi32(finish(sums[0].high, sums[0].low), finish(sums[1].high, sums[1].low));
    const __m256i right =
        _mm256_packs_epi32(finish(sums[2].high, sums[2].low), finish(sums[3].high, sums[3].low));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), _mm256_packus_epi16(left, right));
  }
}

struct Factor {
  __m256 high;
  __m256 low;
};

FORELOAD_AVX2_INLINE __m256 times(__m256 value, const Factor& factor) {
  return _mm256_fmadd_ps(value, factor.high, _mm256_mul_ps(value, factor.low));
}

FORELOAD_AVX2_INLINE Factor factor_of(const Reciprocal& reciprocal) {
  return {_mm256_set1_ps(reciprocal.high), _mm256_set1_ps(reciprocal.low)};
}

// What is done to 8 values.
struct Math {
  Factor to_unit;
  __m256 mean;
  Factor by_std;
};

FORELOAD_AVX2_INLINE __m256 compute(__m128i bytes, const Math& math) {
  const __m256 value = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  return times(_mm256_sub_ps(times(value, math.to_unit), math.mean), math.by_std);
}

FORELOAD_AVX2_INLINE Math math_of(const ValueMath& math, unsigned channel) {
  return {factor_of(math.unit_factor()), _mm256_set1_ps(math.mean[channel]),
          factor_of(Reciprocal(math.std[channel]))};
}

// For values 8 * part and on of pixels whose channels are side by side.
FORELOAD_AVX2_INLINE Math math_of_part(const ValueMath& math, unsigned part) {
  float mean[8];
  float high[8];
  float low[8];
  for (unsigned i = 0; i < 8; ++i) {
    const unsigned channel = (8 * part + i) % 3;
    const Reciprocal reciprocal(math.std[channel]);
    mean[i] = math.mean[channel];
    high[i] = reciprocal.high;
    low[i] = reciprocal.low;
  }
  return {factor_of(math.unit_factor()),
          _mm256_loadu_ps(mean),
          {_mm256_loadu_ps(high), _mm256_loadu_ps(low)}};
}

template <PixelType kType>
FORELOAD_AVX2_INLINE void store(std::byte* out, __m256 values) {
  if constexpr (kType == PixelType::float32) {
    _mm256_storeu_ps(reinterpret_cast<float*>(out), values);
  } else if constexpr (kType == PixelType::float16) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  } else {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i words =
        _mm256_packus_epi32(_mm256_srli_epi32(rounded, 16), _mm256_setzero_si256());
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                     _mm256_castsi256_si128(_mm256_permute4x64_epi64(words, 0x08)));
  }
}

// Eight pixels of three channels from 24 bytes: reds, greens, blues in the low 24 bytes.
FORELOAD_AVX2_INLINE __m256i separate(const uint8_t* row) {
  const __m256i halves = _mm256_setr_epi32(0, 1, 2, 3, 3, 4, 5, 6);
  const __m256i by_channel =
      _mm256_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1,  //
                       0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i pixels = _mm256_permutevar8x32_epi32(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row)), halves);
  return _mm256_permutevar8x32_epi32(_mm256_shuffle_epi8(pixels, by_channel), order);
}

// Returns how many pixels were written, a multiple of 8.
template <PixelType kType>
FORELOAD_AVX2 uint32_t write_planes(const RowWriter& writer, const uint8_t* row, uint32_t width,
                                    std::byte* out, size_t plane) {
  constexpr size_t kBytes = kType == PixelType::float32 ? 4 : 2;
  const Math red = math_of(writer.math, 0);
  const Math green = math_of(writer.math, 1);
  const Math blue = math_of(writer.math, 2);
  uint32_t x = 0;
  for (; x + 8 <= width; x += 8) {
    const __m256i bytes = separate(row + size_t{3} * x);
    const __m128i low = _mm256_castsi256_si128(bytes);
    std::byte* to = out + x * kBytes;
    store<kType>(to, compute(low, red));
    store<kType>(to + plane, compute(_mm_srli_si128(low, 8), green));
    store<kType>(to + 2 * plane, compute(_mm256_extracti128_si256(bytes, 1), blue));
  }
  return x;
}

template <PixelType kType>
FORELOAD_AVX2 uint32_t write_interleaved(const RowWriter& writer, const uint8_t* row,
                                         uint32_t width, std::byte* out) {
  constexpr size_t kBytes = kType == PixelType::float32 ? 4 : 2;
  const Math parts[3] = {math_of_part(writer.math, 0), math_of_part(writer.math, 1),
                         math_of_part(writer.math, 2)};
  uint32_t x = 0;
  for (; x + 8 <= width; x += 8) {
#pragma GCC unroll 4
    for (unsigned i = 0; i < 3; ++i) {
      const size_t at = size_t{3} * x + 8 * i;
      store<kType>(out + at * kBytes,
                   compute(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(row + at)), parts[i]));
    }
  }
  return x;
}

template <PixelType kType>
FORELOAD_AVX2 uint32_t write_some(const RowWriter& writer, const uint8_t* row, uint32_t width,
                                  std::byte* out, size_t plane) {
  return writer.layout == Layout::chw ? write_planes<kType>(writer, row, width, out, plane)
                                      : write_interleaved<kType>(writer, row, width, out);
}

FORELOAD_AVX2 uint32_t write_byte_planes(const uint8_t* row, uint32_t width, std::byte* out,
                                         size_t plane) {
  uint32_t x = 0;
  for (; x + 8 <= width; x += 8) {
    const __m256i bytes = separate(row + size_t{3} * x);
    const __m128i low = _mm256_castsi256_si128(bytes);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + x), low);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + x + plane), _mm_srli_si128(low, 8));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + x + 2 * plane),
                     _mm256_extracti128_si256(bytes, 1));
  }
  return x;
}

void write(const RowWriter& writer, const uint8_t* row, uint32_t width, std::byte* out,
           size_t plane) {
  uint32_t done = 0;
  if (writer.channels == 3 && (writer.computable || writer.type == PixelType::uint8)) {
    switch (writer.type) {
      case PixelType::float32:
        done = write_some<PixelType::float32>(writer, row, width, out, plane);
        break;
      case PixelType::float16:
        done = write_some<PixelType::float16>(writer, row, width, out, plane);
        break;
      case PixelType::bfloat16:
        done = write_some<PixelType::bfloat16>(writer, row, width, out, plane);
        break;
      default:  // uint8; others have no writer
        if (writer.layout == Layout::chw) done = write_byte_planes(row, width, out, plane);
        break;
    }
  }
  if (done == width) return;
  kPortableKernels.write(writer, row + size_t{done} * writer.channels, width - done,
                         out + writer.row_bytes({done, 1}), plane);
}

}  // namespace

const PixelKernels kAvx2Kernels{"AVX2", pack, horizontal, vertical, write};

}  // namespace foreload
#endif
