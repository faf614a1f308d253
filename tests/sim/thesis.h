// SPDX-License-Identifier: Apache-2.0
//
// Scenarios of this repository and the published cluster, for tests.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/sim/scenario.h"
#include "foreload/sim/simulate.h"

namespace foreload::sim {

// Found from the program upwards, since builds lie within the repository; or beside this file.
inline std::filesystem::path scenario_path(const std::string& name) {
  namespace fs = std::filesystem;
  const fs::path scenarios = fs::path("bench") / "scenarios";
  std::error_code ignored;
  fs::path root = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  while (root.has_relative_path() && !fs::is_directory(root / scenarios)) root = root.parent_path();
  if (!fs::is_directory(root / scenarios)) root = fs::path(__FILE__).parent_path() / "../..";
  return root / scenarios / (name + ".json");
}

inline ScenarioFile scenario_file(const std::string& name) {
  auto file = ScenarioFile::load(scenario_path(name));
  EXPECT_TRUE(file) << file.error().message;
  return *file;
}

inline Scenario scenario(const std::string& name) {
  const auto read = scenario_file(name).read();
  EXPECT_TRUE(read) << read.error().message;
  return *read;
}

// A small cluster on which everything is quick: two tiers, `ranks` ranks.
inline Scenario small_scenario(uint32_t ranks, uint64_t memory, uint64_t disk) {
  Scenario small;
  small.name = "small";
  small.cluster.ranks = ranks;
  small.cluster.network = 1e9;
  small.cluster.staging = 4'000'000;
  small.cluster.preprocess = 200e6;
  small.cluster.source.curve = *Curve::create({{1, 20e6}, {4, 60e6}, {16, 90e6}});
  TierSettings tier;
  tier.name = "memory";
  tier.capacity = memory;
  tier.read.curve = Curve::flat(5e9);
  small.cluster.tiers.push_back(tier);
  tier.name = "disk";
  tier.capacity = disk;
  tier.read.curve = *Curve::create({{1, 100e6}, {4, 300e6}});
  small.cluster.tiers.push_back(tier);
  small.dataset.samples = 800;
  small.dataset.mean = 50'000;
  small.dataset.sigma = 20'000;
  small.training.epochs = 4;
  small.training.batch_size = 10;
  small.training.compute = 40e6;
  return small;
}

// The same device, so many times as fast.
inline Curve times_curve(const Curve& curve, double factor) {
  std::vector<Curve::Point> points(curve.points().begin(), curve.points().end());
  for (Curve::Point& point : points) point.rate *= factor;
  return *Curve::create(std::move(points));
}

inline PolicyResult run_policy(const Scenario& scenario, const std::string& policy) {
  auto result = simulate_policy(scenario, policy);
  EXPECT_TRUE(result) << result.error().message;
  return *result;
}

}  // namespace foreload::sim
