// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/run_record.h"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../temporary_folder.h"

namespace foreload {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

class RunRecordTest : public ::testing::Test {
 protected:
  static std::vector<json> parsed(std::istream&& in) {
    std::vector<json> found;
    for (std::string line; std::getline(in, line);) found.push_back(json::parse(line));
    return found;
  }
  std::vector<json> lines(const std::string& kind) const {
    std::vector<json> found;
    for (json& line : parsed(std::ifstream(file_)))
      if (line.value("kind", "header") == kind) found.push_back(line);
    return found;
  }
  RunRecord record() {
    auto made = RunRecord::create(file_, R"({"made_by": "a test", "seed": 7})", now_);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  // Counters of an epoch after so many of its batches of 10 samples and 1000 bytes.
  static std::string epoch(uint64_t batches) {
    return json{{"samples", 10 * batches},
                {"bytes", 1000 * batches},
                {"from", {{"memory", 400 * batches}, {"source", 600 * batches}}},
                {"verdict", {{"text", "waited 50 % for the source"}, {"losses", json::array()}}}}
        .dump();
  }
  // Of the run, when the source was busy for so long.
  static std::string stats(double busy, uint64_t bytes = 0) {
    return json{{"source_bytes", bytes},
                {"stages",
                 {{{"name", "source"}, {"busy_seconds", busy}},
                  {{"name", "hands"}, {"busy_seconds", busy}, {"in_flight", {{"limit", 2}}}}}},
                {"decoded_samples", 5},
                {"decode_seconds", busy},
                {"decode_by_size",
                 {{{"from_bytes", 64}, {"samples", 5}, {"bytes", bytes}, {"seconds", busy}}}},
                {"peers", {{{"rank", 3}, {"bytes", bytes}, {"served_bytes", 1}}}},
                {"kept_bytes", {11, 22}},
                {"ready_batches", 4}}
        .dump();
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  const std::filesystem::path file_ = folder_ / "run.jsonl";
  RunRecord::Time now_{};
};

TEST_F(RunRecordTest, TheLastLineSaysThatTheRunIsOver) {
  RunRecord written = record();
  now_ += seconds(2);
  ASSERT_TRUE(written.close(now_));
  ASSERT_TRUE(written.moment(epoch(1), stats(1), now_));  // nothing is written after it
  ASSERT_TRUE(written.close(now_));
  ASSERT_EQ(lines("end").size(), 1u);
  EXPECT_EQ(lines("end")[0]["at"], 2);
  EXPECT_TRUE(lines("moment").empty());
}

TEST_F(RunRecordTest, TheHeaderNamesTheProcess) {
  record();
  EXPECT_EQ(lines("header").at(0)["process"]["number"], ::getpid());
  EXPECT_FALSE(lines("header").at(0)["process"]["host"].get<std::string>().empty());
}

TEST_F(RunRecordTest, HeaderSaysWhatRanAndWhen) {
  record();
  const json header = lines("header").at(0);
  EXPECT_EQ(header["foreload_run"], 2);
  EXPECT_EQ(header["made_by"], "a test");
  EXPECT_EQ(header["started"].get<std::string>().size(),
            std::string("2026-01-31T23:59:59Z").size());
}

TEST_F(RunRecordTest, AMomentTellsWhatHappenedSinceTheLineBefore) {
  auto run = record();
  run.begin_epoch(0, 10, stats(0), now_);
  now_ += milliseconds(500);
  EXPECT_EQ(run.batch(milliseconds(500), 10, now_), RunRecord::Wants::epoch);
  ASSERT_TRUE(run.tell(epoch(1), "", now_));
  now_ += milliseconds(1500);
  ASSERT_EQ(run.batch(milliseconds(1000), 10, now_), RunRecord::Wants::epoch_and_stats);
  ASSERT_TRUE(run.tell(epoch(2), stats(1, 8000), now_));
  now_ += seconds(4);
  ASSERT_EQ(run.batch(seconds(1), 10, now_), RunRecord::Wants::epoch_and_stats);
  ASSERT_TRUE(run.tell(epoch(3), stats(4, 10000), now_));

  const auto moments = lines("moment");
  ASSERT_EQ(moments.size(), 2);
  EXPECT_EQ(moments[0]["at"], 2.0);
  EXPECT_EQ(moments[0]["waited"], 0.75);
  EXPECT_EQ(moments[0]["stages"],
            json::parse(R"({"source": [0.5, 4000], "decode": [0.25, 4000]})"));
  EXPECT_EQ(moments[1]["batches"], 3);
  EXPECT_EQ(moments[1]["of"], 10);
  EXPECT_EQ(moments[1]["samples"], 30);
  EXPECT_EQ(moments[1]["from"],
            json::parse(R"({"disk":0,"memory":1200,"peer":0,"source":1800,"staging":0})"));
  EXPECT_EQ(moments[1]["waited"], 0.25);
  EXPECT_EQ(moments[1]["stages"]["source"], json::parse("[0.75, 500]"));
  EXPECT_EQ(moments[1]["kept_bytes"], json::parse("[11, 22]"));
  EXPECT_EQ(moments[1]["ready"], 4);
  EXPECT_EQ(moments[1]["verdict"], "waited 50 % for the source");
}

TEST_F(RunRecordTest, AnEpochTellsOnlyOfItself) {
  auto run = record();
  for (uint64_t number : {0, 1}) {
    const auto before = static_cast<double>(number);
    run.begin_epoch(number, 1, stats(before, 1000 * number), now_);
    now_ += seconds(2);
    run.batch(seconds(1), 10, now_);
    ASSERT_TRUE(run.tell(epoch(1), "", now_));
    ASSERT_TRUE(run.end_epoch(epoch(1), stats(before + 1, 1000 * number + 500), now_));
    now_ += seconds(100);  // nobody asks for batches
  }
  const auto epochs = lines("epoch");
  ASSERT_EQ(epochs.size(), 2);
  EXPECT_EQ(epochs[1]["epoch"], 1);
  EXPECT_EQ(epochs[1]["at"], 104.0);
  EXPECT_EQ(epochs[1]["seconds"], 2.0);
  EXPECT_EQ(epochs[1]["samples"], 10);
  EXPECT_EQ(epochs[1]["bytes"], 1000);
  EXPECT_EQ(epochs[1]["wait_fraction"], 0.5);
  EXPECT_EQ(epochs[1]["batch_wait_ms"]["max"], 1000.0);
  EXPECT_EQ(epochs[1]["stages"]["source"], json::parse("[0.5, 250]"));
  EXPECT_EQ(epochs[1]["peers"], json::parse(R"([{"rank": 3, "bytes": 500, "same_host_bytes": 0,
      "served_bytes": 0, "wait_seconds": 0}])"));
  EXPECT_EQ(epochs[1]["curve"], json::parse("[[2.0, 1000, 10]]"));
  uint64_t batches = 0;
  for (const json& count : epochs[1]["wait_counts"]) batches += count.get<uint64_t>();
  EXPECT_EQ(batches, 1);
}

TEST_F(RunRecordTest, ALoaderThatCountsNothingIsStillTimed) {
  auto run = record();
  run.begin_epoch(0, 0, "{}", now_);
  for (int i = 0; i < 4; ++i) {
    now_ += milliseconds(500);
    if (run.batch(milliseconds(125), 32, now_) != RunRecord::Wants::nothing) {
      ASSERT_TRUE(run.tell("{}", "{}", now_));
    }
  }
  ASSERT_TRUE(run.end_epoch("{}", "{}", now_));
  const json end = lines("epoch").at(0);
  EXPECT_EQ(end["samples"], 128);
  EXPECT_EQ(end["wait_fraction"], 0.25);
}

// After a slow start points were far apart, and an epoch of a moment had none for its end.
TEST_F(RunRecordTest, TheCurveEndsWithTheEpoch) {
  auto run = record();
  now_ += seconds(1000);
  run.begin_epoch(0, 3, "{}", now_);
  for (uint64_t samples = 10; samples <= 30; samples += 10) {
    now_ += milliseconds(1);
    if (run.batch(milliseconds(0), 10, now_) != RunRecord::Wants::nothing) {
      ASSERT_TRUE(run.tell("{}", "", now_));
    }
  }
  ASSERT_TRUE(run.end_epoch("{}", "{}", now_));
  EXPECT_EQ(lines("epoch").at(0)["curve"], json::parse("[[0.003, 0, 30]]"));
}

TEST_F(RunRecordTest, AnEpochThatWasLeftIsNotCountedTwice) {
  auto run = record();
  run.begin_epoch(0, 10, stats(0), now_);
  now_ += seconds(2);
  run.batch(seconds(1), 10, now_);
  ASSERT_TRUE(run.tell(epoch(4), stats(1), now_));
  run.begin_epoch(0, 10, stats(1), now_);
  now_ += seconds(2);
  run.batch(seconds(1), 10, now_);
  ASSERT_TRUE(run.tell(epoch(1), stats(1), now_));
  EXPECT_EQ(lines("moment").at(1)["samples"], 50);
}

using RunRecordStatistics = RunRecordTest;

TEST_F(RunRecordStatistics, TenDaysFitIntoFortyMegabytes) {
  auto run = record();
  const std::string of_epoch = epoch(1'000'000), of_run = stats(1e6, 1'000'000'000'000);
  run.begin_epoch(0, 1'000'000, of_run, now_);
  const auto end = now_ + std::chrono::hours(240);
  while (now_ < end) {
    now_ += milliseconds(997);
    const auto wants = run.batch(milliseconds(100), 10, now_);
    if (wants != RunRecord::Wants::nothing) {
      ASSERT_TRUE(run.tell(of_epoch, wants == RunRecord::Wants::epoch ? "" : of_run, now_));
    }
  }
  ASSERT_TRUE(run.end_epoch(of_epoch, of_run, now_));
  EXPECT_LT(std::filesystem::file_size(file_), 40'000'000);
  EXPECT_LT(run.text().size(), 1'000'000);
}

TEST_F(RunRecordTest, WithoutAFileTheLastLinesAreKept) {
  auto made = RunRecord::create({}, "{}", now_);
  ASSERT_TRUE(made);
  for (uint64_t number = 0; number < 1000; ++number) {
    made->begin_epoch(number, 1, "{}", now_);
    now_ += seconds(1);
    made->batch(milliseconds(1), 1, now_);
    ASSERT_TRUE(made->end_epoch("{}", "{}", now_));
  }
  const auto kept = parsed(std::istringstream(made->text()));
  ASSERT_EQ(kept.size(), 201);
  EXPECT_EQ(kept.back()["epoch"], 999);
}

TEST_F(RunRecordTest, AFileThatCannotBeMadeIsRefused) {
  EXPECT_FALSE(RunRecord::create(folder_ / "missing" / "run.jsonl", "{}", now_));
}

}  // namespace
}  // namespace foreload
