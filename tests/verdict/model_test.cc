// SPDX-License-Identifier: Apache-2.0
//
// What a verdict predicts, against the simulator: random worlds are simulated, their epochs judged,
// and the predicted epochs compared with what the simulator gives when the change is made.
#include "foreload/verdict/model.h"

#include <cmath>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "foreload/sim/simulate.h"

namespace foreload {
namespace {

constexpr int kWorlds = 60;
constexpr double kTolerance = 0.15;
constexpr uint64_t kSamples = 2500;
constexpr uint64_t kMean = 100'000;

// Everything that the simulated worlds differ in; rates are bytes per second.
struct World {
  double source = 0;
  double loop = 0;
  double decode = 0;     // of one thread
  double in_memory = 0;  // share of the data set
  unsigned threads = 2;
};

World draw(std::mt19937_64& random) {
  auto between = [&random](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<>(0, 1)(random));
  };
  World world;
  world.source = between(30e6, 600e6);
  world.loop = between(50e6, 1000e6);
  world.decode = between(30e6, 600e6);
  world.in_memory = std::min(1.0, std::uniform_real_distribution<>(0, 1.3)(random));
  return world;
}

std::string describe(const World& world) {
  return "source " + std::to_string(world.source / 1e6) + " loop " +
         std::to_string(world.loop / 1e6) + " decode " + std::to_string(world.decode / 1e6) +
         " x " + std::to_string(world.threads) + " MB/s, in memory " +
         std::to_string(world.in_memory);
}

sim::Scenario scenario_of(const World& world, uint64_t epochs) {
  sim::Scenario scenario;
  scenario.name = "world";
  scenario.dataset = {.samples = kSamples, .mean = kMean, .sigma = 30'000};
  scenario.cluster.source.curve = Curve::flat(world.source);
  scenario.cluster.source.latency = {.mean = 0.002, .spread = 0.5};
  scenario.cluster.preprocess = world.decode;
  scenario.cluster.preprocess_threads = world.threads;
  // Room for five batches ahead. With room for fewer than three, stages wait for each other, and an
  // epoch takes up to a third longer than its slowest stage.
  scenario.cluster.staging = 24'000'000;
  sim::TierSettings memory;
  memory.name = "memory";
  memory.capacity = static_cast<uint64_t>(world.in_memory * 1.01 * kSamples * kMean);
  memory.read.curve = Curve::flat(10e9);
  scenario.cluster.tiers = {memory};
  scenario.training.epochs = epochs;
  scenario.training.batch_size = 32;
  scenario.training.drop_last = false;
  scenario.training.compute = world.loop;
  scenario.training.jitter = 0.2;
  return scenario;
}

sim::Outcome simulated(const World& world, uint64_t epochs) {
  auto result = sim::simulate_policy(scenario_of(world, epochs), "foreload");
  EXPECT_TRUE(result) << result.error().message;
  return result->outcome;
}

// The epoch as an engine in that world would have counted it. Devices of constant rate are busy for
// as long as their bytes take.
EpochFigures figures_of(const World& world, double seconds, double source_bytes, double data) {
  EpochFigures figures;
  figures.seconds = seconds;
  figures.waited = std::max(0.0, seconds - data / world.loop);
  figures.samples = kSamples;
  figures.bytes = static_cast<uint64_t>(data);
  figures.data_bytes = static_cast<uint64_t>(data);
  figures.kept_bytes = static_cast<uint64_t>(world.in_memory * data);
  figures.memory_bytes = figures.kept_bytes;
  figures.memory_left = uint64_t{1} << 40;
  figures.cpus = figures.decode_threads = world.threads;
  figures.stages[static_cast<size_t>(Limit::source)] = {source_bytes / world.source,
                                                        static_cast<uint64_t>(source_bytes)};
  figures.stages[static_cast<size_t>(Limit::decode)] = {data / world.decode / world.threads, 0};
  return figures;
}

// The world after a change, as the words of its kind mean it.
World changed(const World& world, const Change& change) {
  World then = world;
  if (change.what.starts_with("memory=")) then.in_memory = 1;
  if (change.what.starts_with("twice the CPUs")) then.threads *= 2;
  return then;
}

TEST(VerdictModelStatistics, PredictsWhatTheSimulatorGivesAfterAChange) {
  std::mt19937_64 random(7);
  const double data = static_cast<double>(simulated({1e9, 1e9, 1e9, 1, 2}, 1).source_bytes);
  int compared = 0, limits[kLimits] = {};
  double worst = 0;
  for (int i = 0; i < kWorlds; ++i) {
    const World world = draw(random);
    const sim::Outcome run = simulated(world, 4);
    const double later = (run.epoch_seconds[2] + run.epoch_seconds[3]) / 2;
    const double missed = data * (1 - world.in_memory);
    for (const bool first : {true, false}) {
      const EpochFigures figures = first ? figures_of(world, run.epoch_seconds[0], data, data)
                                         : figures_of(world, later, missed, data);
      const Verdict verdict = judge(figures);
      ++limits[static_cast<size_t>(verdict.limit)];
      if (verdict.limit == Limit::loop) continue;
      for (const Change& change : changes_of(figures, verdict.limit)) {
        if (change.kind == Change::Kind::next_run || change.what.starts_with("disk=")) continue;
        const bool only_later = change.kind == Change::Kind::caches_are_full;
        const sim::Outcome after = only_later ? run : simulated(changed(world, change), 4);
        // More CPUs help at once, caches in later epochs.
        const bool at_once = change.what.starts_with("twice") && first;
        const double expected = at_once ? after.epoch_seconds[0]
                                        : (after.epoch_seconds[2] + after.epoch_seconds[3]) / 2;
        const double error = change.then.seconds() / expected - 1;
        worst = std::max(worst, std::abs(error));
        ++compared;
        EXPECT_LE(std::abs(error), kTolerance)
            << describe(world) << (first ? ", first" : ", later") << " epoch of " << figures.seconds
            << " s, limit " << name_of(verdict.limit) << ", " << change.what << ": predicted "
            << change.then.seconds() << " s, simulated " << expected << " s";
      }
    }
  }
  RecordProperty("compared", compared);
  RecordProperty("worst_percent", static_cast<int>(100 * worst));
  EXPECT_GE(compared, 50);
  for (const Limit limit : {Limit::loop, Limit::source, Limit::decode})
    EXPECT_GT(limits[static_cast<size_t>(limit)], 5) << name_of(limit);
}

}  // namespace
}  // namespace foreload
