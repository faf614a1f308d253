// SPDX-License-Identifier: Apache-2.0
//
// What training costs after decoding: resizing a crop to 224 x 224 and writing it as normalised
// floats, by instruction set; and the whole transform of a training sample beside the bare decode
// of the same crops. An iteration is over all crops, so that all benchmarks do the same work;
// `per_crop` is the time of one.
#include <benchmark/benchmark.h>

#include "foreload/decode/row_resampler.h"
#include "foreload/decode/row_writer.h"
#include "foreload/decode/transform.h"

#include "photos.h"

namespace foreload {
namespace {

constexpr ImageSize kSize{487, 424};
constexpr uint32_t kSide = 224;
constexpr int kQuality = 94;
constexpr size_t kPhotos = 16;
constexpr size_t kCrops = 128;
const step::Normalize kNormalize{{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

const std::vector<std::vector<std::byte>>& photos() {
  static const auto all = [] {
    std::vector<std::vector<std::byte>> list;
    for (uint64_t i = 0; i < kPhotos; ++i) list.push_back(photo(kSize, i, kQuality, false));
    return list;
  }();
  return all;
}

const PixelKernels* kernels_named(std::string_view name) {
  for (const PixelKernels* kernels : usable_kernels()) {
    if (kernels->name == name) return kernels;
  }
  return nullptr;
}

void count_crops(benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(kCrops));
  state.counters["per_crop"] = benchmark::Counter(
      kCrops, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// Calls `work(i)` for every crop, again and again.
template <class Work>
void for_all_crops(benchmark::State& state, Work work) {
  for (auto _ : state) {
    for (size_t i = 0; i < kCrops; ++i) {
      if (!work(i)) return state.SkipWithError("failed");
    }
    benchmark::ClobberMemory();
  }
  count_crops(state);
}

// From decoded pixels to the batch.
void after_decoding(benchmark::State& state, const char* name, PixelType type, bool write) {
  const PixelKernels* kernels = kernels_named(name);
  if (kernels == nullptr) return state.SkipWithError("this machine has no such instructions");
  PixelBuffer decoded;
  make_photo(kSize, 1, 1, decoded);
  const ImageSize size{kSide, kSide};
  const RowWriter writer = RowWriter::make(
      type, Layout::chw, 3, {255, {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}});
  std::vector<std::byte> out(writer.plane_bytes(size) * 3);
  PixelBuffer row;
  row.reset({kSide, 1}, 3);
  Scratch scratch;
  for_all_crops(state, [&](size_t i) {
    const Region crop = training_crop(kSize, i);
    PixelView in = decoded.view();
    in.data += crop.y * in.stride + size_t{crop.x} * 3;
    in.size = {crop.width, crop.height};
    const Resizing resizing{
        .x = {crop.width, 0, static_cast<double>(crop.width), kSide, 0, kSide},
        .y = {crop.height, 0, static_cast<double>(crop.height), kSide, 0, kSide},
        .flip = i % 2 == 0};
    RowResampler rows(in, {}, resizing, *kernels, scratch);
    for (uint32_t y = 0; y < kSide; ++y) {
      rows.next(row.row(0));
      if (!write) continue;
      kernels->write(writer, row.row(0), kSide, out.data() + y * writer.row_bytes(size),
                     writer.plane_bytes(size));
    }
    benchmark::DoNotOptimize(row.row(0)[0]);
    return true;
  });
}

std::shared_ptr<const Transform> training(bool fast) {
  return *Transform::compile({step::Decode{.fast = fast}, step::RandomResizedCrop{{kSide, kSide}},
                              step::RandomHorizontalFlip{}, kNormalize, step::ToLayout{}});
}

void run_chain(benchmark::State& state, const std::shared_ptr<const Transform>& chain) {
  const auto& files = photos();
  std::vector<std::byte> out(chain->form().bytes());
  Scratch scratch;
  for_all_crops(state, [&](size_t i) {
    return chain->run(files[i % kPhotos], {1, 0, i}, out, scratch).has_value();
  });
}

void train(benchmark::State& state) {
  run_chain(state, training(false));
}

void train_fast(benchmark::State& state) {
  run_chain(state, training(true));
}

void train_with_jitter(benchmark::State& state) {
  run_chain(state, *Transform::compile({step::RandomResizedCrop{{kSide, kSide}},
                                        step::RandomHorizontalFlip{},
                                        step::ColorJitter{{0.6, 1.4}, {0.6, 1.4}, {0.6, 1.4}},
                                        kNormalize, step::ToLayout{}}));
}

void evaluate(benchmark::State& state) {
  run_chain(state, *Transform::compile({step::Resize{{}, 256}, step::CenterCrop{{kSide, kSide}},
                                        kNormalize, step::ToLayout{}}));
}

// The same crops as `train` draws, decoded only.
void decode_the_same_crops(benchmark::State& state) {
  const auto& files = photos();
  const auto chain = training(false);
  Scratch scratch;
  for_all_crops(state, [&](size_t i) {
    const auto& file = files[i % kPhotos];
    const auto header = read_header(file, {});
    const Region crop = chain->draw(kSize, {1, 0, i}).crop;
    return header && decode(file, *header, {}, crop, 1, scratch.decoded, scratch);
  });
}

void draw_parameters(benchmark::State& state) {
  const auto chain = training(false);
  uint64_t i = 0;
  for (auto _ : state) benchmark::DoNotOptimize(chain->draw(kSize, {1, 0, i++}));
  state.SetItemsProcessed(state.iterations());
}

#define FORELOAD_BENCH_KERNELS(label, name)                                               \
  BENCHMARK_CAPTURE(after_decoding, label##_resize, name, PixelType::float32, false)      \
      ->Unit(benchmark::kMillisecond);                                                    \
  BENCHMARK_CAPTURE(after_decoding, label##_to_float32, name, PixelType::float32, true)   \
      ->Unit(benchmark::kMillisecond);                                                    \
  BENCHMARK_CAPTURE(after_decoding, label##_to_bfloat16, name, PixelType::bfloat16, true) \
      ->Unit(benchmark::kMillisecond)

FORELOAD_BENCH_KERNELS(portable, "portable");
FORELOAD_BENCH_KERNELS(avx2, "AVX2");
FORELOAD_BENCH_KERNELS(avx512, "AVX-512");
BENCHMARK(draw_parameters);
BENCHMARK(decode_the_same_crops)->Unit(benchmark::kMillisecond);
BENCHMARK(train)->Unit(benchmark::kMillisecond);
BENCHMARK(train_fast)->Unit(benchmark::kMillisecond);
BENCHMARK(train_with_jitter)->Unit(benchmark::kMillisecond);
BENCHMARK(evaluate)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreload
