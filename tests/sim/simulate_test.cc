// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/simulate.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "foreload/sim/advise.h"

#include "thesis.h"

namespace foreload::sim {
namespace {

using Json = nlohmann::json;

ScenarioFile quick(uint32_t ranks) {
  ScenarioFile file = scenario_file("thesis_1");
  EXPECT_TRUE(file.set("dataset.samples", "1000"));
  EXPECT_TRUE(file.set("training.epochs", "2"));
  EXPECT_TRUE(file.set("cluster.ranks", std::to_string(ranks)));
  return file;
}

TEST(Simulate, JsonHasWhatIsDocumented) {
  const auto simulation = simulate(quick(4), {});
  ASSERT_TRUE(simulation) << simulation.error().message;
  const Json json = Json::parse(to_json(*simulation));
  EXPECT_EQ(json["scenario"], "thesis, scenario 1");
  std::vector<std::string> names;
  for (const Json& result : json["results"]) {
    names.push_back(result["policy"]);
    for (const char* key : {"seconds", "stall_fraction", "source_bytes", "source_bytes_lower_bound",
                            "hits", "supported"})
      EXPECT_TRUE(result.contains(key)) << key;
    if (!result["supported"]) {
      EXPECT_TRUE(result["reason"].is_string());
      continue;
    }
    EXPECT_GT(result["seconds"], 0);
    EXPECT_GE(result["stall_fraction"], 0);
    EXPECT_LE(result["stall_fraction"], 1);
    EXPECT_TRUE(result["hits"].contains("memory"));
    EXPECT_TRUE(result["hits"].contains("source"));
  }
  EXPECT_EQ(names, policy_names());
  EXPECT_EQ(names.size(), 11u);
}

TEST(Simulate, SweepsOverEveryCombination) {
  SimulateOptions options;
  options.policies = {"naive", "staging_pool"};
  options.sweeps = {{"training.epochs", {"1", "2"}},
                    {"cluster.tiers.memory.capacity", {"\"0B\"", "1GB", "2GB"}}};
  const auto simulation = simulate(quick(2), options);
  ASSERT_TRUE(simulation) << simulation.error().message;
  ASSERT_EQ(simulation->results.size(), 12u);
  const Json json = Json::parse(to_json(*simulation, /*stalls=*/true));
  EXPECT_EQ(json["results"][2]["set"]["training.epochs"], 2);
  EXPECT_EQ(json["results"][4]["set"]["cluster.tiers.memory.capacity"], "1GB");
  EXPECT_FALSE(json["results"][0]["stalls"].empty());
  EXPECT_NEAR(simulation->results[2].outcome.seconds, 2 * simulation->results[0].outcome.seconds,
              0.1 * simulation->results[0].outcome.seconds);
}

TEST(Simulate, ABadSweepNamesItsKey) {
  SimulateOptions options;
  options.sweeps = {{"training.epocs", {"1"}}};
  const auto simulation = simulate(quick(2), options);
  ASSERT_FALSE(simulation);
  EXPECT_EQ(simulation.error().message, "training.epocs: unknown key; did you mean epochs?");
}

TEST(Simulate, TextShowsEveryPolicyAndWhyOneCannotRun) {
  const auto simulation = simulate(scenario_file("thesis_1"), {.policies = {"lower_bound"}});
  ASSERT_TRUE(simulation);
  EXPECT_NE(to_text(*simulation).find("lower_bound"), std::string::npos);
  Scenario large = scenario("thesis_1");
  large.cluster.tiers[0].capacity = 1000;
  Simulation refused{"", {run_policy(large, "lbann_dynamic")}};
  EXPECT_NE(to_text(refused).find("larger than the memory of all ranks"), std::string::npos);
}

TEST(Simulate, ReportsProgress) {
  uint64_t last = 0;
  uint64_t total = 0;
  SimulateOptions options;
  options.policies = {"naive", "staging_pool"};
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GE(done, last);
    last = done;
    total = all;
    return true;
  };
  ScenarioFile file = quick(4);
  ASSERT_TRUE(file.set("dataset.samples", "40000"));
  ASSERT_TRUE(simulate(file, options));
  EXPECT_EQ(total, 2000u);
  EXPECT_GT(last, 0u);
}

TEST(Advise, SaysThatAJobComputes) {
  Scenario job = small_scenario(1, 100'000'000, 0);
  job.training.compute = 1e6;
  const auto advice = advise(job, "");
  ASSERT_TRUE(advice) << advice.error().message;
  EXPECT_EQ(advice->policy, "foreload");
  EXPECT_EQ(advice->limit, "compute");
}

TEST(Advise, FindsASlowSource) {
  Scenario job = small_scenario(4, 100'000'000, 0);
  job.training.compute = 1e9;
  const auto advice = advise(job, "staging_pool");
  ASSERT_TRUE(advice) << advice.error().message;
  EXPECT_EQ(advice->limit, "source");
  EXPECT_NE(to_text(*advice).find("saves"), std::string::npos);
  EXPECT_EQ(Json::parse(to_json(*advice))["limit"], "source");
}

TEST(Advise, PrefersTheCheapChange) {
  // Half of the data set fits; twice the disk makes it fit.
  Scenario job = small_scenario(1, 1'000'000, 20'000'000);
  job.training.epochs = 12;
  job.training.compute = 300e6;
  job.cluster.preprocess.reset();
  const auto advice = advise(job, "");
  ASSERT_TRUE(advice) << advice.error().message;
  ASSERT_GE(advice->sentences.size(), 3u);
  EXPECT_NE(advice->sentences[2].find("of disk per node"), std::string::npos)
      << advice->sentences[2];
}

}  // namespace
}  // namespace foreload::sim
