// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/scenario.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "foreload/dataset/index.h"
#include "foreload/metrics/run_file.h"
#include "foreload/model/profile.h"

#include "../temporary_folder.h"
#include "thesis.h"

namespace foreload::sim {
namespace {

class ScenarioTest : public testing::Test {
 protected:
  Result<Scenario> read(const std::string& json) const {
    FORELOAD_TRY(const ScenarioFile file, ScenarioFile::parse(json, folder_));
    return file.read();
  }
  std::string flaw(const std::string& json) const {
    const auto scenario = read(json);
    EXPECT_FALSE(scenario) << json;
    if (scenario) return "";
    EXPECT_EQ(scenario.error().kind, ErrorKind::invalid);
    EXPECT_EQ(scenario.error().message.find('\n'), std::string::npos);
    return scenario.error().message;
  }
  // The smallest scenario, with some parts replaced.
  static std::string with(const std::string& cluster = R"("source": {"curve": "10MB/s"})",
                          const std::string& dataset = R"("samples": 100, "mean": "1KB")",
                          const std::string& training = R"("compute": "1MB/s")",
                          const std::string& more = "") {
    return "{\"cluster\": {" + cluster + "}, \"dataset\": {" + dataset + "}, \"training\": {" +
           training + "}" + more + "}";
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
};

TEST_F(ScenarioTest, ErrorsOfAFileNameTheLine) {
  const auto file = folder_ / "job.json";
  const auto flaw_of = [&file](const std::string& text) {
    std::ofstream(file) << text;
    auto scenario = ScenarioFile::load(file);
    return scenario ? scenario->read().error().message : scenario.error().message;
  };
  const std::string good = R"({"cluster": {"source": {"curve": 1}}, "training": {"compute": 1},)";
  EXPECT_EQ(
      flaw_of(good + "\n// two\n\"dataset\": {\"samples\": 1,\n \"mean\": \"1XB\"}}").substr(0, 22),
      "line 4: dataset.mean: ");
  EXPECT_EQ(flaw_of(good + "\n\n\"dataset\": {\"samples\": 1}}"),
            "line 3: dataset.mean: is missing");
  EXPECT_NE(flaw_of(good + "\n\"dataset\" {}}").find("line 2: it is not JSON"), std::string::npos);
}

TEST_F(ScenarioTest, EveryScenarioOfTheRepositoryIsRead) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(scenario_path("x").parent_path())) {
    if (entry.path().extension() != ".json") continue;
    const auto file = ScenarioFile::load(entry.path());
    ASSERT_TRUE(file) << file.error().message;
    const auto read = file->read();
    EXPECT_TRUE(read) << entry.path() << ": " << read.error().message;
    ++count;
  }
  EXPECT_GE(count, 10);
}

TEST_F(ScenarioTest, ReadsTheThesis) {
  const Scenario thesis = scenario("thesis_3");
  EXPECT_EQ(thesis.cluster.ranks, 4u);
  ASSERT_EQ(thesis.cluster.tiers.size(), 2u);
  EXPECT_EQ(thesis.cluster.tiers[1].capacity, 100'000'000'000u);
  EXPECT_DOUBLE_EQ(thesis.cluster.tiers[1].read.curve.rate(2), 86e6);
  EXPECT_DOUBLE_EQ(thesis.cluster.source.curve.rate(8), 326e6);
  EXPECT_EQ(thesis.dataset.sigma, 200'000u);
  EXPECT_EQ(thesis.training.epochs, 5u);
  EXPECT_EQ(thesis.training.batch_size, 25u);
}

TEST_F(ScenarioTest, UnknownKeysAreNamedWithTheNearestKnownOne) {
  EXPECT_EQ(flaw(with(R"("source": {"curve": 1}, "rank": 3)")),
            "cluster.rank: unknown key; did you mean ranks?");
  EXPECT_EQ(flaw(with(R"("source": {"curve": 1, "latancy": 3})")),
            "cluster.source.latancy: unknown key; did you mean latency?");
  EXPECT_EQ(
      flaw(with(R"("source": {"curve": 1}, "tiers": [{"curve": 1, "size": "1GB"}])")).substr(0, 47),
      "cluster.tiers.0.size: unknown key; known are na");
  EXPECT_EQ(
      flaw(with(R"("source": {"curve": 1})", R"("samples": 1, "mean": 1)", R"("computes": 1)")),
      "training.computes: unknown key; did you mean compute?");
  EXPECT_EQ(flaw(R"({"clusters": {}})"), "clusters: unknown key; did you mean cluster?");
}

TEST_F(ScenarioTest, MissingAndWrongValuesAreNamed) {
  EXPECT_EQ(flaw("{}"), "cluster: is missing");
  EXPECT_EQ(flaw(with("")), "cluster.source: is missing");
  EXPECT_EQ(flaw(with(R"("source": {})")), "cluster.source.curve: is missing");
  EXPECT_EQ(flaw(with(R"("source": {"curve": "10MB"})")),
            "cluster.source.curve: is \"10MB\": give a rate like \"66MB/s\", or bytes per second");
  EXPECT_EQ(flaw(with(R"("source": {"curve": [[2, 1], [1, 1]]})")),
            "cluster.source.curve: point 1 of a throughput curve has concurrency 1 after 2: it "
            "must grow from point to point");
  EXPECT_EQ(flaw(with(R"("source": {"curve": 1}, "ranks": 0)")),
            "cluster.ranks: is 0: give a whole number from 1 to 1048576");
  EXPECT_EQ(flaw(with(R"("source": {"curve": 1}, "eviction": "largest")")).substr(0, 60),
            "cluster.eviction: is \"largest\": use in turn or largest first");
  EXPECT_EQ(flaw(with(R"("source": {"curve": 1}, "staging": {"capacity": "1XB"})")).substr(0, 25),
            "cluster.staging.capacity:");
  EXPECT_EQ(flaw(with(R"("source": {"curve": 1})", R"("mean": "1KB")")),
            "dataset.samples: is missing: give samples and mean, or index");
  EXPECT_EQ(flaw(with(R"("source": {"curve": 1})", R"("samples": 1, "mean": 1)",
                      R"("compute": 1, "order": "random")")),
            "training.order: is \"random\": use torch, sequential or feistel");
  EXPECT_EQ(flaw(with(R"("source": {"curve": 1})", R"("samples": 1, "mean": 1)", R"("compute": 1)",
                      R"(, "policies": ["nopf"])")),
            "policies: unknown policy 'nopf'; did you mean nopfs?");
}

TEST_F(ScenarioTest, WhatIsNoJsonIsRefused) {
  EXPECT_FALSE(ScenarioFile::parse("", folder_));
  EXPECT_FALSE(ScenarioFile::parse("[1]", folder_));
  const auto missing = ScenarioFile::load(folder_ / "nothing.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().kind, ErrorKind::unreadable);
  EXPECT_NE(missing.error().message.find("nothing.json"), std::string::npos);
}

TEST_F(ScenarioTest, SetReplacesAnyValue) {
  ScenarioFile file = scenario_file("thesis_1");
  ASSERT_TRUE(file.set("cluster.tiers.disk.capacity", "7GB"));
  ASSERT_TRUE(file.set("cluster.tiers.0.capacity", "1000"));
  ASSERT_TRUE(file.set("cluster.source.latency", "0.5"));
  ASSERT_TRUE(file.set("training.drop_last", "false"));
  const auto scenario = file.read();
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->cluster.tiers[1].capacity, 7'000'000'000u);
  EXPECT_EQ(scenario->cluster.tiers[0].capacity, 1000u);
  EXPECT_EQ(scenario->cluster.source.latency.mean, 0.5);
  EXPECT_FALSE(scenario->training.drop_last);
}

TEST_F(ScenarioTest, SetRefusesWhatIsNoKey) {
  ScenarioFile file = scenario_file("thesis_1");
  EXPECT_FALSE(file.set("", "1"));
  EXPECT_FALSE(file.set("cluster..ranks", "1"));
  EXPECT_FALSE(file.set("cluster.tiers.tape.capacity", "1"));
  EXPECT_FALSE(file.set("cluster.ranks.more", "1"));
  ASSERT_TRUE(file.set("cluster.rnks", "1"));
  EXPECT_EQ(file.read().error().message, "cluster.rnks: unknown key; did you mean ranks?");
}

TEST_F(ScenarioTest, DevicesComeFromAProfile) {
  MachineProfile profile;
  profile.put({.name = "ram", .kind = DeviceKind::memory, .curve = Curve::flat(9e9)});
  profile.put({.name = "nvme",
               .kind = DeviceKind::disk,
               .path = "/scratch",
               .curve = *Curve::create({{1, 1e9}, {8, 3e9}}),
               .latency = 80e-6,
               .write_rate = 5e8});
  profile.put({.name = "train",
               .kind = DeviceKind::source,
               .path = "/data",
               .curve = Curve::flat(6e7),
               .latency = 0.005});
  ASSERT_TRUE(profile.save(folder_ / "machine.json"));
  const auto scenario = read(with(
      R"("profile": "machine.json", "tiers": [{"name": "memory", "capacity": "1GB"},
         {"name": "disk", "capacity": "2GB", "device": "nvme"}])"));
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_EQ(scenario->cluster.tiers[0].read.curve.rate(1), 9e9);
  EXPECT_EQ(scenario->cluster.tiers[1].read.curve.rate(8), 3e9);
  EXPECT_EQ(scenario->cluster.tiers[1].read.latency.mean, 0);  // the curve has it
  EXPECT_EQ(scenario->cluster.tiers[1].write->rate(1), 5e8);
  EXPECT_EQ(scenario->cluster.source.curve.rate(1), 6e7);
  EXPECT_EQ(scenario->cluster.source.latency.mean, 0);
  EXPECT_NE(flaw(with(R"("profile": "machine.json", "source": {"device": "tape"})"))
                .find("has no device 'tape'; it has ram, nvme, train"),
            std::string::npos);
  EXPECT_EQ(flaw(with(R"("source": {"device": "train", "curve": 1})")),
            "cluster.source.device: give cluster.profile too, the file that has it");
}

TEST_F(ScenarioTest, WhatCpusTakeComesFromAProfile) {
  MachineProfile profile;
  profile.put({.name = "ram",
               .kind = DeviceKind::memory,
               .curve = Curve::flat(9e9),
               .write_rate = 5e8,
               .shared_write_rate = 2e9});
  profile.put({.name = "train",
               .kind = DeviceKind::source,
               .path = "/data",
               .curve = Curve::flat(6e7),
               .cpu_rate = 1e9});
  ASSERT_TRUE(profile.save(folder_ / "machine.json"));
  const std::string node = R"("profile": "machine.json", "tiers": [{"capacity": "1GB"}],
                              "preprocess": {"rate": 1, "bytes": 600000})";
  const auto alone = read(with(node));
  ASSERT_TRUE(alone) << alone.error().message;
  EXPECT_DOUBLE_EQ(alone->cluster.source.cpu, 1e-9);
  EXPECT_DOUBLE_EQ(alone->cluster.fresh_cpu, 2e-9);
  EXPECT_DOUBLE_EQ(alone->cluster.tiers[0].write_cpu, 2e-9);
  EXPECT_FALSE(alone->cluster.tiers[0].write);
  EXPECT_EQ(alone->cluster.preprocessed, 600'000u);
  const auto shared = read(with(R"("ranks": 2, "ranks_per_node": 2, )" + node));
  ASSERT_TRUE(shared) << shared.error().message;
  EXPECT_DOUBLE_EQ(shared->cluster.fresh_cpu, 2e-9);
  EXPECT_DOUBLE_EQ(shared->cluster.tiers[0].write_cpu, 0.5e-9);
}

TEST_F(ScenarioTest, ARunFileSaysWhatWasMeasured) {
  auto run = RunFile::create(folder_ / "run.jsonl", R"({"samples": 10, "bytes": 5000})");
  ASSERT_TRUE(run);
  ASSERT_TRUE(run->append(
      R"({"seconds": 10, "bytes": 5000, "from": {"source": 5000}, "wait_fraction": 0.9})"));
  ASSERT_TRUE(run->append(
      R"({"seconds": 4, "bytes": 5000, "from": {"source": 400}, "wait_fraction": 0.75})"));
  const auto scenario = read(
      with(R"("source": {"run": "run.jsonl"})", R"("run": "run.jsonl")", R"("run": "run.jsonl")"));
  ASSERT_TRUE(scenario) << scenario.error().message;
  EXPECT_DOUBLE_EQ(scenario->cluster.source.curve.rate(3), 500);
  EXPECT_EQ(scenario->dataset.samples, 10u);
  EXPECT_EQ(scenario->dataset.mean, 500u);
  EXPECT_DOUBLE_EQ(scenario->training.compute, 5000);
  ASSERT_TRUE(run->append(R"({"kind": "moment", "at": 15, "bytes": 9000})"));  // is no epoch
  EXPECT_DOUBLE_EQ(read(with(R"("source": {"run": "run.jsonl"})"))->cluster.source.curve.rate(3),
                   500);
  std::ofstream(folder_ / "old.jsonl") << "{\"foreload_run\": 1}\n"
                                       << R"({"seconds": 2, "from": {"source": 800}})" << "\n";
  EXPECT_DOUBLE_EQ(read(with(R"("source": {"run": "old.jsonl"})"))->cluster.source.curve.rate(3),
                   400);
  std::ofstream(folder_ / "no.jsonl") << "{}\n";
  EXPECT_NE(flaw(with(R"("source": {"run": "no.jsonl"})")).find("is not a run file"),
            std::string::npos);
}

TEST_F(ScenarioTest, TheIndexOfARealDataSetGivesItsSizes) {
  IndexBuilder builder;
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(builder.add_file(std::to_string(i), 100 + static_cast<uint64_t>(i), 1, 0));
  ASSERT_TRUE(builder.finish()->save(folder_ / "real.index"));
  const auto scenario = read(with(R"("source": {"curve": 1})", R"("index": "real.index")"));
  ASSERT_TRUE(scenario) << scenario.error().message;
  const auto sizes = sizes_of(scenario->dataset);
  ASSERT_TRUE(sizes);
  EXPECT_EQ(sizes->total(), 510u);
}

}  // namespace
}  // namespace foreload::sim
