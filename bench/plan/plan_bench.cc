// SPDX-License-Identifier: Apache-2.0
//
// What planning costs. Figures and the machine they came from are in docs/performance.md.
#include <sys/resource.h>

#include <random>

#include <benchmark/benchmark.h>

#include "foreload/plan/feistel.h"
#include "foreload/plan/plan.h"
#include "foreload/plan/torch_shuffle.h"

namespace foreload {
namespace {

constexpr uint64_t kImageNet1k = 1'281'167;
constexpr uint64_t kImageNet22k = 14'197'122;
constexpr uint64_t kBillion = 1'000'000'000;

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Counts and placement, with capacity for a share of the data set in percent. Peak memory is that
// of the process so far: run one benchmark at a time (--benchmark_filter) to read it.
void plan_job(benchmark::State& state, uint64_t samples, uint32_t ranks, unsigned threads,
              PlacementKind placement) {
  const auto sizes = *Sizes::normal(samples, 110 << 10, 50 << 10, 0);
  Job job;
  job.ranks = ranks;
  job.epochs = 90;
  job.placement = placement;
  const uint64_t each = sizes.total() / 100 * static_cast<uint64_t>(state.range(0)) / ranks;
  job.tiers = {{{"memory", each / 4, 2}, {"disk", each - each / 4, 1}}};
  for (auto _ : state) {
    const auto plan = Plan::make(job, sizes, {.threads = threads});
    if (!plan) return state.SkipWithError(plan.error().message.c_str());
    benchmark::DoNotOptimize(plan->digest());
    state.counters["covered"] =
        static_cast<double>(plan->traffic().covered.reads) / static_cast<double>(samples);
  }
  state.counters["peak_MiB"] = peak_mib();
}

BENCHMARK_CAPTURE(plan_job, imagenet_1k_64_ranks_90_epochs_1_core, kImageNet1k, 64, 1,
                  PlacementKind::cover)
    ->Arg(50)
    ->Arg(100)
    ->Arg(500)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(plan_job, imagenet_1k_64_ranks_90_epochs_1_core_independent, kImageNet1k, 64, 1,
                  PlacementKind::independent)
    ->Arg(100)
    ->Unit(benchmark::kSecond);
BENCHMARK_CAPTURE(plan_job, imagenet_22k_1024_ranks_90_epochs_2_cores, kImageNet22k, 1024, 2,
                  PlacementKind::cover)
    ->Arg(100)
    ->Iterations(1)
    ->Unit(benchmark::kSecond);

// torch's permutation itself, the floor under every plan that follows torch's order.
void torch_permutation(benchmark::State& state) {
  std::vector<uint32_t> ids(static_cast<size_t>(state.range(0)));
  uint64_t seed = 0;
  for (auto _ : state) torch_randperm(seed++, std::span(ids));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(torch_permutation)->Arg(kImageNet1k)->Arg(kImageNet22k)->Unit(benchmark::kMillisecond);

// The same with the standard library's generator, for comparison.
void torch_permutation_std(benchmark::State& state) {
  std::vector<uint32_t> ids(static_cast<size_t>(state.range(0)));
  uint32_t seed = 0;
  for (auto _ : state) {
    std::mt19937 random(seed++);
    for (uint32_t i = 0; i < ids.size(); ++i) ids[i] = i;
    for (uint32_t i = 0; i + 1 < ids.size(); ++i)
      std::swap(ids[i], ids[i + static_cast<uint32_t>(random()) % (ids.size() - i)]);
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(torch_permutation_std)->Arg(kImageNet1k)->Unit(benchmark::kMillisecond);

void feistel_first_indices(benchmark::State& state) {
  uint64_t epoch = 0;
  std::vector<uint64_t> ids(256);
  for (auto _ : state) {
    const auto order = std::move(*make_order({"feistel"}, kBillion, 7));
    const auto opened = std::move(*order->epoch(epoch++));
    read_list(*opened, {kBillion, 1024, Pad::repeat, 0}, 777, 0, ids);
    benchmark::DoNotOptimize(ids.data());
  }
}
BENCHMARK(feistel_first_indices)->Unit(benchmark::kMicrosecond);

template <class Lookup>
void lookups(benchmark::State& state, Lookup lookup) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> ids(4096);
  for (uint64_t& id : ids) id = random() % kBillion;
  for (auto _ : state) {
    for (const uint64_t id : ids) benchmark::DoNotOptimize(lookup(id));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(ids.size()));
}

void feistel_forward(benchmark::State& state) {
  const FeistelPermutation permutation(kBillion, 1, 2);
  lookups(state, [&](uint64_t id) { return permutation(id); });
}
BENCHMARK(feistel_forward);

void feistel_inverse(benchmark::State& state) {
  const FeistelPermutation permutation(kBillion, 1, 2);
  lookups(state, [&](uint64_t id) { return permutation.inverse(id); });
}
BENCHMARK(feistel_inverse);

// The owner of one of a billion samples on 1,024 ranks with unequal capacities.
void computed_owner(benchmark::State& state) {
  std::vector<std::vector<PlannedTier>> tiers;
  for (uint64_t rank = 0; rank < 1024; ++rank)
    tiers.push_back({{"memory", (20 + rank % 7) << 30, 2}, {"disk", (50 + rank % 5) << 30, 1}});
  const auto sizes = *Sizes::uniform(kBillion, 110 << 10);
  const auto capacities = *Capacities::of(1024, tiers);
  const Placement placement = place_computed(sizes, capacities, 1);
  lookups(state, [&](uint64_t id) { return placement.owner(id).rank; });
}
BENCHMARK(computed_owner);

}  // namespace
}  // namespace foreload
