// SPDX-License-Identifier: Apache-2.0
//
// Scenarios drawn at random, small enough that each is simulated in a few milliseconds: any number
// of ranks and tiers, devices from a tenth of what training needs to a hundred times as much, with
// and without latency, memory for less than one batch ahead to that for many. The seed decides
// everything.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "foreload/sim/scenario.h"

namespace foreload::sim {

class RandomScenario {
 public:
  explicit RandomScenario(uint64_t seed) : random_(seed) {}

  Scenario draw() {
    Scenario scenario;
    scenario.name = "random";
    draw_training(scenario);
    draw_dataset(scenario);
    ClusterSettings& cluster = scenario.cluster;
    cluster.ranks = uint32_t{1} << pick(4);
    if (cluster.ranks > 1 && chance(0.3)) cluster.ranks_per_node = 2;
    const double data = static_cast<double>(scenario.dataset.samples * scenario.dataset.mean);
    draw_source(cluster);
    draw_tiers(cluster, data / cluster.nodes());
    cluster.network = between(0.1, 100) * need_;
    cluster.network_latency = chance(0.5) ? 0 : between(1e-5, 5e-3);
    const double batch = static_cast<double>(scenario.training.batch_size * scenario.dataset.mean);
    cluster.staging = static_cast<uint64_t>(batch * between(0.5, 30));
    cluster.staging_threads = static_cast<unsigned>(1 + pick(8));
    cluster.preprocess_threads = static_cast<unsigned>(1 + pick(8));
    if (chance(0.7)) cluster.preprocess = between(0.1, 4) * need_;
    return scenario;
  }

 private:
  // Even in the logarithm.
  double between(double least, double most) {
    return least * std::pow(most / least, std::uniform_real_distribution<>(0, 1)(random_));
  }
  uint64_t pick(uint64_t below) { return random_() % below; }
  bool chance(double share) { return std::uniform_real_distribution<>(0, 1)(random_) < share; }

  // Rises to its last point, and from there on stays.
  Curve curve(double rate) {
    std::vector<Curve::Point> points{{1, rate}};
    for (double readers = 4; readers <= 64 && chance(0.6); readers *= 4)
      points.push_back({readers, points.back().rate * between(1, 4)});
    return *Curve::create(std::move(points));
  }

  void draw_training(Scenario& scenario) {
    TrainingSettings& training = scenario.training;
    training.objective = Objective::time;
    training.epochs = 1 + pick(5);
    training.batch_size = uint64_t{2} << pick(5);
    training.compute = need_ = between(10e6, 1e9);
    training.seed = pick(1000);
    if (chance(0.2)) training.exchange = between(1e-4, 1e-2);
    training.drop_last = chance(0.7);
  }
  void draw_dataset(Scenario& scenario) {
    scenario.dataset.samples = 512 + pick(1024);
    scenario.dataset.mean = static_cast<uint64_t>(between(5e3, 1e6));
    if (chance(0.6))
      scenario.dataset.sigma =
          static_cast<uint64_t>(between(0.05, 1) * static_cast<double>(scenario.dataset.mean));
  }
  void draw_source(ClusterSettings& cluster) {
    cluster.source.curve = curve(between(0.1, 10) * need_);
    if (chance(0.5)) cluster.source.latency = {between(1e-4, 0.1), chance(0.5) ? 0.0 : 0.5};
    if (chance(0.2)) cluster.source_link = between(0.2, 10) * need_;
    if (chance(0.01)) cluster.source.latency = {40, 0};  // beyond the deadline of a read
  }
  void draw_tiers(ClusterSettings& cluster, double part) {
    const uint64_t tiers = pick(3);
    for (uint64_t tier = 0; tier < tiers; ++tier) {
      TierSettings& settings = cluster.tiers.emplace_back();
      settings.name = tier == 0 ? "memory" : "disk";
      settings.capacity = static_cast<uint64_t>(part * between(0.05, 2));
      settings.threads = static_cast<unsigned>(1 + pick(4));
      settings.read.curve =
          tier == 0 ? Curve::flat(between(10, 100) * need_) : curve(between(0.05, 10) * need_);
      if (tier > 0 && chance(0.4)) settings.read.latency = {between(1e-4, 2e-2), 0};
      if (tier > 0 && chance(0.4)) settings.write = Curve::flat(between(0.1, 10) * need_);
    }
  }

  std::mt19937_64 random_;
  double need_ = 0;  // bytes per second that a rank trains on
};

// For messages: what it takes to see why a policy is slow in it.
inline std::string describe(const Scenario& scenario) {
  auto curve = [](const Curve& of) {
    std::string text;
    for (const Curve::Point& point : of.points())
      text += fmt::format("{}{:.0f}:{:.1f}", text.empty() ? "" : " ", point.concurrency,
                          point.rate / 1e6);
    return text;
  };
  const ClusterSettings& cluster = scenario.cluster;
  std::string text = fmt::format(
      "{} ranks, {} a node; {} samples of {}+-{} kB, {} epochs of batches of {}; compute {:.1f} "
      "MB/s, exchange {:.4f} s; source {} MB/s after {:.4f} s, link {:.1f}; network {:.1f} after "
      "{:.4f} s; staging {:.2f} batches, {} threads; preprocess {:.1f} MB/s x {}",
      cluster.ranks, cluster.ranks_per_node, scenario.dataset.samples, scenario.dataset.mean / 1000,
      scenario.dataset.sigma / 1000, scenario.training.epochs, scenario.training.batch_size,
      scenario.training.compute / 1e6, scenario.training.exchange, curve(cluster.source.curve),
      cluster.source.latency.mean, cluster.source_link.value_or(0) / 1e6, cluster.network / 1e6,
      cluster.network_latency,
      static_cast<double>(cluster.staging) /
          static_cast<double>(scenario.training.batch_size * scenario.dataset.mean),
      cluster.staging_threads, cluster.preprocess.value_or(0) / 1e6, cluster.preprocess_threads);
  const double part = static_cast<double>(scenario.dataset.samples * scenario.dataset.mean) /
                      static_cast<double>(cluster.nodes());
  for (const TierSettings& tier : cluster.tiers)
    text += fmt::format("; {} {:.2f} of its part, {} MB/s after {:.4f} s, write {}", tier.name,
                        static_cast<double>(tier.capacity) / part, curve(tier.read.curve),
                        tier.read.latency.mean, tier.write ? curve(*tier.write) : "free");
  return text;
}

}  // namespace foreload::sim
