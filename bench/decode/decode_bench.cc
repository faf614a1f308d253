// SPDX-License-Identifier: Apache-2.0
//
// Decoding the crops of training from photos of ImageNet's mean size, beside a bare libjpeg loop
// over the same crops: the difference is what foreload adds.
#include <array>
#include <cstddef>
#include <cstdio>

#include <benchmark/benchmark.h>

#include "foreload/decode/decoder.h"

#include "jpeglib.h"
#include "photos.h"

namespace foreload {
namespace {

constexpr ImageSize kSize{487, 424};
constexpr int kQuality = 94;
constexpr size_t kPhotos = 16;
constexpr size_t kCrops = 256;

const std::vector<std::vector<std::byte>>& photos(bool progressive) {
  static const auto make = [](bool wanted) {
    std::vector<std::vector<std::byte>> list;
    for (uint64_t i = 0; i < kPhotos; ++i) list.push_back(photo(kSize, i, kQuality, wanted));
    return list;
  };
  static const auto plain = make(false);
  static const auto in_scans = make(true);
  return progressive ? in_scans : plain;
}

Region crop_of(size_t i, unsigned shrink, bool whole) {
  const ImageSize size{(kSize.width + shrink - 1) / shrink, (kSize.height + shrink - 1) / shrink};
  return whole ? Region{0, 0, size.width, size.height} : training_crop(size, i % kCrops);
}

void set_counters(benchmark::State& state, bool progressive) {
  size_t bytes = 0;
  for (const auto& file : photos(progressive)) bytes += file.size();
  state.SetItemsProcessed(state.iterations());
  state.counters["KiB"] = static_cast<double>(bytes) / kPhotos / 1024;
}

struct Case {
  bool whole;
  unsigned shrink = 1;
  bool progressive = false;
};

void decode_with_foreload(benchmark::State& state, const Case& kind) {
  const auto& files = photos(kind.progressive);
  Scratch scratch;
  size_t i = 0;
  for (auto _ : state) {
    const auto& file = files[i % kPhotos];
    const auto header = read_header(file, {});
    const Region region = crop_of(i++, kind.shrink, kind.whole);
    if (!header || !decode(file, *header, {}, region, kind.shrink, scratch.decoded, scratch)) {
      state.SkipWithError("decoding failed");
    }
    benchmark::DoNotOptimize(scratch.decoded.row(0)[0]);
  }
  set_counters(state, kind.progressive);
}

// The least a program can do with libjpeg: no margins, no checks, rows into one buffer.
void decode_with_libjpeg(benchmark::State& state, const Case& kind) {
  const auto& files = photos(kind.progressive);
  std::vector<uint8_t> pixels(size_t{kSize.width} * kSize.height * 3);
  size_t i = 0;
  for (auto _ : state) {
    const auto& file = files[i % kPhotos];
    const Region region = crop_of(i++, kind.shrink, kind.whole);
    jpeg_decompress_struct info;
    jpeg_error_mgr errors;
    info.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&info);
    jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&info, TRUE);
    info.scale_denom = kind.shrink;
    jpeg_start_decompress(&info);
    JDIMENSION first = region.x, width = region.width;
    jpeg_crop_scanline(&info, &first, &width);
    jpeg_skip_scanlines(&info, region.y);
    std::array<JSAMPROW, 16> rows;
    while (info.output_scanline < region.y + region.height) {
      const uint32_t at = info.output_scanline;
      for (uint32_t k = 0; k < 16; ++k) {
        rows[k] = pixels.data() + (at + k - region.y) % region.height * size_t{width} * 3;
      }
      jpeg_read_scanlines(&info, rows.data(), std::min(16u, region.y + region.height - at));
    }
    jpeg_destroy_decompress(&info);
    benchmark::DoNotOptimize(pixels[0]);
  }
  set_counters(state, kind.progressive);
}

void read_headers(benchmark::State& state) {
  const auto& files = photos(false);
  size_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(read_header(files[i++ % kPhotos], {}));
  state.SetItemsProcessed(state.iterations());
}

BENCHMARK(read_headers);
BENCHMARK_CAPTURE(decode_with_libjpeg, whole, Case{true})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_with_foreload, whole, Case{true})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_with_libjpeg, crops, Case{false})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_with_foreload, crops, Case{false})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_with_libjpeg, crops_halved, Case{false, 2})->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_with_foreload, crops_halved, Case{false, 2})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_with_libjpeg, crops_progressive, Case{false, 1, true})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(decode_with_foreload, crops_progressive, Case{false, 1, true})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace foreload
