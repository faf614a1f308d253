// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/pixel_kernels.h"

#include <algorithm>
#include <cstring>

#include "foreload/base/cpu_features.h"
#include "foreload/decode/pixel_kernels_x86.h"
#include "foreload/decode/row_writer.h"

namespace foreload {
namespace {

constexpr int32_t kHalf = 1 << (kWeightBits - 1);

uint8_t to_byte(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

void pack_nothing(const AxisWeights&, int32_t*) {}

void horizontal(const uint8_t* const* in, uint8_t* const* out, unsigned rows,
                const AxisWeights& weights, const int32_t*) {
  for (unsigned row = 0; row < rows; ++row) {
    uint8_t* to = out[row];
    for (uint32_t output = 0; output < weights.outputs; ++output) {
      const uint8_t* pixel = in[row] + size_t{3} * weights.starts[output];
      const int32_t* weight = &weights.weights[size_t{output} * weights.stride];
      int32_t red = kHalf;
      int32_t green = kHalf;
      int32_t blue = kHalf;
      for (uint32_t tap = 0; tap < weights.counts[output]; ++tap, pixel += 3) {
        red += pixel[0] * weight[tap];
        green += pixel[1] * weight[tap];
        blue += pixel[2] * weight[tap];
      }
      *to++ = to_byte(red);
      *to++ = to_byte(green);
      *to++ = to_byte(blue);
    }
  }
}

void vertical(const uint8_t* const* in, const int32_t* weights, unsigned taps, size_t bytes,
              uint8_t* out) {
  // Loops of a fixed length, over the end of the row too, are ones that compilers vectorise.
  constexpr size_t kAtOnce = 64;
  for (size_t begin = 0; begin < bytes; begin += kAtOnce) {
    int32_t sums[kAtOnce];
    std::fill_n(sums, kAtOnce, kHalf);
    for (unsigned tap = 0; tap < taps; ++tap) {
      if (weights[tap] == 0) continue;
      const uint8_t* row = in[tap] + begin;
      const int32_t weight = weights[tap];
      for (size_t i = 0; i < kAtOnce; ++i) sums[i] += row[i] * weight;
    }
    for (size_t i = 0; i < kAtOnce; ++i) out[begin + i] = to_byte(sums[i]);
  }
}

template <class Value>
void look_up(const std::array<std::array<Value, 256>, 3>& tables, const RowWriter& writer,
             const uint8_t* row, uint32_t width, std::byte* out, size_t plane) {
  const uint32_t channels = writer.channels;
  for (uint32_t channel = 0; channel < channels; ++channel) {
    const Value* table = tables[channel].data();
    const bool planar = writer.layout == Layout::chw;
    auto* to = reinterpret_cast<Value*>(out + (planar ? channel * plane : channel * sizeof(Value)));
    const size_t step = planar ? 1 : channels;
    for (uint32_t x = 0; x < width; ++x) to[x * step] = table[row[x * channels + channel]];
  }
}

void write(const RowWriter& writer, const uint8_t* row, uint32_t width, std::byte* out,
           size_t plane) {
  switch (writer.type) {
    case PixelType::float32:
      return look_up(writer.floats, writer, row, width, out, plane);
    case PixelType::float16:
    case PixelType::bfloat16:
      return look_up(writer.halves, writer, row, width, out, plane);
    default:  // uint8; others have no writer
      break;
  }
  if (writer.layout == Layout::hwc || writer.channels == 1) {
    std::memcpy(out, row, size_t{width} * writer.channels);
    return;
  }
  for (uint32_t channel = 0; channel < 3; ++channel) {
    auto* to = reinterpret_cast<uint8_t*>(out + channel * plane);
    for (uint32_t x = 0; x < width; ++x) to[x] = row[3 * x + channel];
  }
}

}  // namespace

const PixelKernels kPortableKernels{"portable", pack_nothing, horizontal, vertical, write};

void horizontal_grey(const uint8_t* const* in, uint8_t* const* out, unsigned rows,
                     const AxisWeights& weights) {
  for (unsigned row = 0; row < rows; ++row) {
    for (uint32_t output = 0; output < weights.outputs; ++output) {
      const uint8_t* pixel = in[row] + weights.starts[output];
      const int32_t* weight = &weights.weights[size_t{output} * weights.stride];
      int32_t sum = kHalf;
      for (uint32_t tap = 0; tap < weights.counts[output]; ++tap) sum += pixel[tap] * weight[tap];
      out[row][output] = to_byte(sum);
    }
  }
}

std::vector<const PixelKernels*> usable_kernels() {
  std::vector<const PixelKernels*> usable;
#ifdef FORELOAD_X86_KERNELS
  if (cpu_features().avx512) usable.push_back(&kAvx512Kernels);
  if (cpu_features().avx2) usable.push_back(&kAvx2Kernels);
#endif
  usable.push_back(&kPortableKernels);
  return usable;
}

const PixelKernels& best_kernels() {
#ifdef FORELOAD_X86_KERNELS
  if (cpu_features().avx512) return kAvx512Kernels;
  if (cpu_features().avx2) return kAvx2Kernels;
#endif
  return kPortableKernels;
}

}  // namespace foreload
