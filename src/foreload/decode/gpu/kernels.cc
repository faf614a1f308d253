// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/gpu/kernels.h"

namespace foreload::gpu {

const char* const kResizeSource = R"cuda(
typedef unsigned char u8;
typedef unsigned int u32;
typedef long long i64;

struct Item {
  const u8* image;
  u8* middle;
  u8* out;
  u32 pitch, crop_width, crop_height, resized_width, resized_height;
  int left, top;
  u32 width, height, first_row, rows, pixel_step, row_step, channel_step, flip, fill;
};

// One output of one axis: which inputs it uses and the sum of their weights.
struct Output {
  double center, narrowing, sum;
  u32 begin, end;
};

__device__ double triangle(double x) {
  x = fabs(x);
  return x < 1.0 ? 1.0 - x : 0.0;
}

__device__ double weight(const Output& o, u32 input) {
  return triangle(((double)input - o.center + 0.5) * o.narrowing);
}

__device__ Output output_of(u32 number, u32 inputs, u32 outputs) {
  const double scale = (double)(float)inputs / outputs;
  const double support = scale < 1.0 ? 1.0 : scale;
  Output o;
  o.center = (number + 0.5) * scale;
  o.narrowing = 1.0 / support;
  const i64 begin = (i64)(o.center - support + 0.5);
  const i64 end = (i64)(o.center + support + 0.5);
  o.begin = begin < 0 ? 0u : (u32)begin;
  o.end = end > inputs ? inputs : (u32)end;
  o.sum = 0;
  for (u32 i = o.begin; i < o.end; ++i) o.sum += weight(o, i);
  return o;
}

__device__ int fixed_weight(const Output& o, u32 input) {
  double w = weight(o, input);
  if (o.sum != 0.0) w /= o.sum;
  return (int)(0.5 + w * (1 << 22));
}

__device__ u8 to_pixel(int sum) {
  sum >>= 22;
  return (u8)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

extern "C" __global__ void foreload_columns(const Item* items) {
  const Item item = items[blockIdx.y];
  const u32 first = blockIdx.x * 16u;
  if (first >= item.rows) return;
  const u32 last = first + 16u < item.rows ? first + 16u : item.rows;
  extern __shared__ int weights[];  // those of a thread lie blockDim.x apart
  for (u32 x = threadIdx.x; x < item.width; x += blockDim.x) {
    const int at = item.left + (int)x;
    if (at < 0 || at >= (int)item.resized_width) continue;
    const Output o = output_of((u32)at, item.crop_width, item.resized_width);
    const u32 taps = o.end - o.begin;
    for (u32 t = 0; t < taps; ++t)
      weights[t * blockDim.x + threadIdx.x] = fixed_weight(o, o.begin + t);
    for (u32 row = first; row < last; ++row) {
      const u8* in = item.image + (size_t)(item.first_row + row) * item.pitch + o.begin * 3u;
      int r = 1 << 21, g = 1 << 21, b = 1 << 21;
      for (u32 t = 0; t < taps; ++t) {
        const int w = weights[t * blockDim.x + threadIdx.x];
        r += w * in[3 * t];
        g += w * in[3 * t + 1];
        b += w * in[3 * t + 2];
      }
      u8* to = item.middle + ((size_t)row * item.width + x) * 3u;
      to[0] = to_pixel(r);
      to[1] = to_pixel(g);
      to[2] = to_pixel(b);
    }
  }
}

extern "C" __global__ void foreload_rows(const Item* items) {
  const Item item = items[blockIdx.y];
  const u32 y = blockIdx.x;
  if (y >= item.height) return;
  const int row = item.top + (int)y;
  const bool shown = row >= 0 && row < (int)item.resized_height;
  __shared__ int weights[64];
  __shared__ u32 begin, taps;
  if (shown && threadIdx.x < 64) {
    const Output o = output_of((u32)row, item.crop_height, item.resized_height);
    if (threadIdx.x == 0) {
      begin = o.begin;
      taps = o.end - o.begin;
    }
    if (threadIdx.x < o.end - o.begin)
      weights[threadIdx.x] = fixed_weight(o, o.begin + threadIdx.x);
  }
  __syncthreads();
  for (u32 x = threadIdx.x; x < item.width; x += blockDim.x) {
    const u32 to_x = item.flip ? item.width - 1 - x : x;
    u8* to = item.out + (size_t)y * item.row_step + (size_t)to_x * item.pixel_step;
    const int at = item.left + (int)x;
    u8 pixel[3] = {(u8)item.fill, (u8)(item.fill >> 8), (u8)(item.fill >> 16)};
    if (shown && at >= 0 && at < (int)item.resized_width) {
      int r = 1 << 21, g = 1 << 21, b = 1 << 21;
      const u8* in = item.middle + ((size_t)(begin - item.first_row) * item.width + x) * 3u;
      for (u32 t = 0; t < taps; ++t, in += (size_t)item.width * 3u) {
        r += weights[t] * in[0];
        g += weights[t] * in[1];
        b += weights[t] * in[2];
      }
      pixel[0] = to_pixel(r);
      pixel[1] = to_pixel(g);
      pixel[2] = to_pixel(b);
    }
    to[0] = pixel[0];
    to[item.channel_step] = pixel[1];
    to[2u * item.channel_step] = pixel[2];
  }
}
)cuda";

}  // namespace foreload::gpu
