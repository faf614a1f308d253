// SPDX-License-Identifier: Apache-2.0
//
// How fast the simulator is: events of a shared device, and whole trainings by policy. An item is a
// read under way on the device, or a sample that a rank consumes.
#include <benchmark/benchmark.h>

#include "foreload/sim/device.h"
#include "foreload/sim/simulate.h"

namespace foreload::sim {
namespace {

// A read ends, another begins; so many are under way all the time.
void device_events(benchmark::State& state) {
  Agenda agenda;
  Device device(std::make_shared<const ShareTable>(Curve::flat(1e9)), agenda);
  uint64_t ticket = 0;
  for (; ticket < static_cast<uint64_t>(state.range(0)); ++ticket)
    device.start(agenda, 1000 + ticket % 977, ticket);
  for (auto _ : state) {
    agenda.next();
    benchmark::DoNotOptimize(device.end(agenda));
    device.start(agenda, 1000 + ticket % 977, ticket);
    ++ticket;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(device_events)->Arg(8)->Arg(256)->Arg(16384);

Scenario training(uint32_t ranks, uint64_t samples) {
  Scenario job;
  job.cluster.ranks = ranks;
  job.cluster.preprocess = 200e6;
  job.cluster.source.curve = *Curve::create({{1, 100e6}, {64, 4e9}, {256, 8e9}});
  TierSettings memory;
  memory.name = "memory";
  memory.capacity = samples / ranks * 200'000;
  memory.read.curve = Curve::flat(20e9);
  job.cluster.tiers = {memory};
  job.dataset.samples = samples;
  job.dataset.mean = 100'000;
  job.dataset.sigma = 40'000;
  job.training.epochs = 3;
  job.training.batch_size = 32;
  job.training.compute = 250e6;
  return job;
}

void train_with(benchmark::State& state, const std::string& policy, uint32_t ranks) {
  const Scenario job = training(ranks, 200'000);
  for (auto _ : state) {
    auto result = simulate_policy(job, policy);
    benchmark::DoNotOptimize(result);
  }
  state.SetItemsProcessed(state.iterations() * 3 * 200'000);
}
BENCHMARK_CAPTURE(train_with, naive, "naive", 64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_with, staging_pool, "staging_pool", 64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_with, lbann_dynamic, "lbann_dynamic", 64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_with, nopfs, "nopfs", 64)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_with, foreload_alone, "foreload", 1)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(train_with, foreload, "foreload", 64)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreload::sim
