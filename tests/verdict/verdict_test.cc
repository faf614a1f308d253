// SPDX-License-Identifier: Apache-2.0
#include "foreload/verdict/verdict.h"

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace foreload {
namespace {

using Json = nlohmann::json;

StageFigures& stage(EpochFigures& figures, Limit limit) {
  return figures.stages[static_cast<size_t>(limit)];
}

// 1 GB from a source of 50 MB/s, half of it kept, in an epoch that fills the caches.
EpochFigures slow_source() {
  EpochFigures figures;
  figures.seconds = 20;
  figures.waited = 16;
  figures.samples = 10'000;
  figures.bytes = figures.data_bytes = 1'000'000'000;
  figures.kept_bytes = figures.memory_bytes = 500'000'000;
  figures.memory_left = 2'000'000'000;
  stage(figures, Limit::source) = {20, figures.bytes};
  stage(figures, Limit::decode) = {3, 0};
  figures.decode_threads = figures.cpus = 4;
  return figures;
}

EpochFigures decoding() {
  EpochFigures figures = slow_source();
  figures.kept_bytes = figures.data_bytes;
  stage(figures, Limit::source) = {0, 0};
  stage(figures, Limit::decode) = {19.5, 0};
  return figures;
}

// What is kept is five times as large as files, and decoded already.
EpochFigures finishing() {
  EpochFigures figures = decoding();
  figures.made_from_bytes = figures.data_bytes / 5;
  figures.kept_decoded = true;
  stage(figures, Limit::source) = {4, figures.made_from_bytes};
  return figures;
}

EpochFigures python_threads(double cpu_seconds) {
  EpochFigures figures;
  figures.seconds = 20;
  figures.waited = 18;
  figures.samples = figures.epoch_samples = 1000;
  figures.cpus = 4;
  figures.transform_workers = 4;
  figures.transform_in_threads = true;
  figures.transform_cpu_seconds = cpu_seconds;
  stage(figures, Limit::transform) = {19.8, 0};
  return figures;
}

const Help* find(const Verdict& verdict, const std::string& what) {
  for (const Help& help : verdict.helps)
    if (help.what.starts_with(what)) return &help;
  return nullptr;
}

TEST(Verdict, FullCachesOfFinishedSamplesLeaveNothingToDecode) {
  const Verdict verdict = judge(finishing());
  const Help* help = find(verdict, "caches that are full");
  ASSERT_NE(help, nullptr);
  EXPECT_LT(help->seconds, 5);
  EpochFigures files = finishing();
  files.kept_decoded = false;
  const Verdict again = judge(files);
  EXPECT_EQ(find(again, "caches that are full"), nullptr);
}

// A slow source, and half of the samples kept: half of the files are read again.
TEST(Verdict, WhatTheSourceGivesIsCountedInItsOwnBytes) {
  EpochFigures figures = slow_source();
  figures.made_from_bytes = figures.data_bytes / 5;
  stage(figures, Limit::source) = {20, figures.made_from_bytes};
  const Verdict verdict = judge(figures);
  const Help* help = find(verdict, "caches that are full");
  ASSERT_NE(help, nullptr);
  EXPECT_NEAR(help->seconds, 10, 0.5);
}

TEST(Verdict, ALoopThatHardlyWaitsIsTheLimit) {
  EpochFigures figures = slow_source();
  figures.waited = 0.02 * figures.seconds;
  const Verdict verdict = judge(figures);
  EXPECT_EQ(verdict.limit, Limit::loop);
  EXPECT_EQ(verdict.text, "waited 2 %: the loop itself is the limit");
  EXPECT_TRUE(verdict.helps.empty());
  figures.waited = 0;
  EXPECT_EQ(judge(figures).text, "did not wait: the loop itself is the limit");
}

// Writing at the pace of a slow source says nothing about how fast a disk is read.
TEST(Verdict, ADiskThatWasOnlyWrittenToIsNotTakenForSlow) {
  EpochFigures figures = slow_source();
  figures.kept_bytes = figures.data_bytes;
  figures.disk_bytes = 500'000'000;
  stage(figures, Limit::disk) = {1, 9'000'000};
  const Verdict verdict = judge(figures);
  const Help* const full = find(verdict, "caches that are full");
  ASSERT_NE(full, nullptr);
  EXPECT_DOUBLE_EQ(full->seconds, 4);  // the loop's own time
}

TEST(Verdict, TheBusiestStageIsTheLimit) {
  for (const Limit limit :
       {Limit::source, Limit::network, Limit::disk, Limit::decode, Limit::transform}) {
    EpochFigures figures;
    figures.seconds = 10;
    figures.waited = 5;
    for (StageFigures& other : figures.stages) other.busy_seconds = 6;
    stage(figures, limit).busy_seconds = 9.5;
    EXPECT_EQ(judge(figures).limit, limit) << name_of(limit);
  }
}

// A source that fills caches is busy all the time, whatever limits.
TEST(Verdict, OfStagesThatAreEquallyBusyTheLastOneLimits) {
  EpochFigures figures = slow_source();
  stage(figures, Limit::decode).busy_seconds = 19.5;
  EXPECT_EQ(judge(figures).limit, Limit::decode);
}

// Requests to other ranks waited for what these read from a slow source, and the network was
// blamed.
TEST(Verdict, OtherRanksThatWaitForTheSourceAreNotTheLimit) {
  EpochFigures figures = slow_source();
  stage(figures, Limit::network) = stage(figures, Limit::source);
  EXPECT_EQ(judge(figures).limit, Limit::source);
}

TEST(Verdict, AFirstEpochSaysWhatLaterOnesTake) {
  const Verdict verdict = judge(slow_source());
  EXPECT_EQ(verdict.limit, Limit::source);
  EXPECT_EQ(verdict.text,
            "waited 80 % for the source (50 MB/s); later epochs will take about 10 s, 4.0 s with "
            "memory=\"954MiB\" (477MiB more)");
  ASSERT_EQ(verdict.helps.size(), 2u);
  EXPECT_EQ(verdict.helps[0].what, "memory=\"954MiB\" (477MiB more)");
  EXPECT_DOUBLE_EQ(verdict.helps[0].seconds, 4);
  EXPECT_DOUBLE_EQ(verdict.helps[0].times, 5);
  EXPECT_DOUBLE_EQ(verdict.helps[1].seconds, 10);
}

TEST(Verdict, ALaterEpochSaysWhatMoreMemoryGives) {
  EpochFigures figures = slow_source();
  figures.seconds = 10;
  figures.waited = 6;
  stage(figures, Limit::source) = {10, figures.bytes / 2};
  const Verdict verdict = judge(figures);
  EXPECT_EQ(verdict.text,
            "waited 60 % for the source (50 MB/s); memory=\"954MiB\" (477MiB more) would make "
            "later epochs 2.5 times as fast");
  EXPECT_EQ(verdict.helps.size(), 1u);
}

TEST(Verdict, NamesADiskWhereTheMachineHasNotEnoughMemory) {
  EpochFigures figures = slow_source();
  figures.memory_left = 100'000'000;
  const Verdict verdict = judge(figures);
  EXPECT_EQ(find(verdict, "memory="), nullptr);
  const Help* disk = find(verdict, "disk=");
  ASSERT_NE(disk, nullptr);
  EXPECT_EQ(disk->what, "disk=\"FOLDER:487MiB\" on a disk with 500 MB/s");
  EXPECT_DOUBLE_EQ(disk->seconds, 4);
}

// Nodes share the data set, so each of them needs its part of what is missing.
TEST(Verdict, AsksEachNodeForItsPart) {
  EpochFigures figures = slow_source();
  figures.nodes = 2;
  figures.memory_bytes = 250'000'000;
  EXPECT_NE(find(judge(figures), "memory=\"477MiB\" (239MiB more)"), nullptr);
}

TEST(Verdict, AMemoryThatHoldsEverythingLeavesTheNextRunCold) {
  EpochFigures figures = slow_source();
  figures.kept_bytes = figures.data_bytes;
  const Verdict verdict = judge(figures);
  EXPECT_EQ(verdict.text,
            "waited 80 % for the source (50 MB/s); later epochs will take about 4.0 s");
  const Help* disk = find(verdict, "disk=");
  ASSERT_NE(disk, nullptr);
  EXPECT_NE(disk->what.find("in the first epoch of the next run"), std::string::npos);
}

TEST(Verdict, GainsBelowFivePercentAreNotNamed) {
  EpochFigures figures = slow_source();
  stage(figures, Limit::network).busy_seconds =
      18.9;  // what is left when the source has less to do
  EXPECT_EQ(judge(figures).limit, Limit::source);
  EXPECT_FALSE(judge(figures).helps.empty());
  figures.seconds = stage(figures, Limit::source).busy_seconds = 19.89;
  EXPECT_EQ(judge(figures).limit, Limit::source);
  EXPECT_TRUE(judge(figures).helps.empty());
}

TEST(Verdict, DecodingWantsThreadsWhereThereAreCpus) {
  EpochFigures figures = decoding();
  EXPECT_EQ(judge(figures).text,
            "waited 80 % for decoding (4 threads busy 98 %); twice the CPUs (8 threads) would make "
            "an epoch 2.1 times as fast");
  figures.cpus = 16;
  EXPECT_NE(find(judge(figures), "num_workers=8"), nullptr);
}

// Four threads that use one CPU wait for the interpreter: processes would not.
TEST(Verdict, PythonThreadsThatComputeWantProcesses) {
  const Verdict verdict = judge(python_threads(20));
  EXPECT_EQ(verdict.limit, Limit::transform);
  const Help* processes = find(verdict, "workers=\"process\"");
  ASSERT_NE(processes, nullptr);
  EXPECT_DOUBLE_EQ(processes->seconds, 5);
  ASSERT_NE(find(verdict, "foreload.transforms"), nullptr);
  EXPECT_EQ(find(verdict, "num_workers"), nullptr);
}

// They share an interpreter that is not busy: as many processes would take as long.
TEST(Verdict, PythonThreadsThatDoBothDoNotWantProcesses) {
  EXPECT_EQ(find(judge(python_threads(14)), "workers="), nullptr);
}

TEST(Verdict, PythonThreadsThatSleepWantMoreOfThem) {
  const Verdict verdict = judge(python_threads(0.1));
  EXPECT_EQ(verdict.limit, Limit::transform);
  ASSERT_EQ(verdict.helps.size(), 1u);
  EXPECT_EQ(verdict.helps[0].what, "num_workers=8");
}

TEST(Verdict, AFunctionInTheLoopsThreadIsATransform) {
  EpochFigures figures = slow_source();
  stage(figures, Limit::source).busy_seconds = 20;
  figures.own_seconds = 12;
  const Verdict verdict = judge(figures);
  EXPECT_EQ(verdict.limit, Limit::transform);
  EXPECT_NE(verdict.text.find("in the loop's own thread"), std::string::npos);
}

TEST(Verdict, SlowSourcesHaveARateToo) {
  EpochFigures figures = slow_source();
  stage(figures, Limit::source).bytes = 200'000;
  EXPECT_TRUE(judge(figures).text.starts_with("waited 80 % for the source (10 kB/s)"));
}

TEST(Verdict, TellsTheStartApart) {
  EpochFigures figures = slow_source();
  figures.waited = figures.first_wait = 8;
  Verdict verdict = judge(figures);
  EXPECT_EQ(verdict.limit, Limit::loop);
  EXPECT_DOUBLE_EQ(verdict.waited, 0.4);
  EXPECT_EQ(verdict.text,
            "waited 40 % for the first batch (8.0 s), not after it: the loop itself is the limit");
  figures.waited = 12;
  verdict = judge(figures);
  EXPECT_EQ(verdict.limit, Limit::source);
  EXPECT_TRUE(verdict.text.starts_with(
      "waited 60 %, most of it for the first batch (8.0 s), then for the source (50 MB/s)"))
      << verdict.text;
}

TEST(Verdict, LessThanHalfASecondIsTooShort) {
  EpochFigures figures = slow_source();
  figures.seconds = 0.4;
  figures.waited = 0.1;
  const Verdict verdict = judge(figures);
  EXPECT_EQ(verdict.text, "waited 25 % of 0.40 s, too short to judge");
  EXPECT_TRUE(verdict.helps.empty());
  EXPECT_EQ(judge({}).waited, 0);
}

// Of half an epoch, or of five: the seconds of a help are always those of one.
TEST(Verdict, HelpsSpeakOfWholeEpochs) {
  EpochFigures figures = slow_source();
  figures.epoch_samples = 2 * figures.samples;
  const Verdict verdict = judge(figures);
  EXPECT_DOUBLE_EQ(verdict.helps[0].seconds, 8);
  EXPECT_DOUBLE_EQ(verdict.helps[0].times, 5);
}

TEST(Verdict, EveryLossHasItsLine) {
  EpochFigures figures;
  figures.skipped = 37;
  figures.skipped_names = {"a/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg"};
  figures.lost_tiers = {"the disk cache /x is off: writing failed"};
  figures.dead_peers = {3, 5};
  figures.retries = 1;
  figures.corrupt_copies = 2;
  const std::vector<std::string> expected{"37 samples skipped (a/1.jpg, a/2.jpg, b/3.jpg, ...)",
                                          "the disk cache /x is off: writing failed",
                                          "ranks 3, 5 lost", "1 read retried",
                                          "2 bad copies in caches read again"};
  EXPECT_EQ(judge(figures).losses, expected);
  EXPECT_TRUE(judge(slow_source()).losses.empty());
}

TEST(Verdict, JsonHasWhatIsDocumented) {
  const Json json = Json::parse(to_json(judge(slow_source())));
  EXPECT_EQ(json["limit"], "source");
  EXPECT_EQ(json["waited"], 0.8);
  EXPECT_EQ(json["seconds"], 20.0);
  EXPECT_TRUE(json["text"].is_string());
  EXPECT_TRUE(json["losses"].empty());
  for (const char* key : {"what", "seconds", "times"})
    EXPECT_TRUE(json["helps"][0].contains(key)) << key;
}

TEST(Verdict, FiguresGoThroughJson) {
  EpochFigures figures = slow_source();
  figures.skipped_names = {"a", "b"};
  figures.dead_peers = {7};
  figures.transform_in_threads = true;
  const auto again = figures_from_json(to_json(figures));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(figures));
}

// Names of files are bytes: what is no UTF-8 must not end the run.
TEST(Verdict, JsonTakesNamesThatAreNoText) {
  EpochFigures figures;
  figures.skipped = 1;
  figures.skipped_names = {"\xff.jpg"};
  EXPECT_TRUE(Json::accept(to_json(judge(figures))));
  EXPECT_TRUE(figures_from_json(to_json(figures)));
}

TEST(Verdict, FiguresThatMakeNoSenseAreNamed) {
  auto message = [](const char* json) {
    const auto figures = figures_from_json(json);
    return figures ? std::string() : figures.error().message;
  };
  EXPECT_NE(message("[1]").find("'figures'"), std::string::npos);
  EXPECT_NE(message(R"({"second": 1})").find("'second'"), std::string::npos);
  EXPECT_NE(message(R"({"seconds": "1"})").find("'seconds'"), std::string::npos);
  EXPECT_NE(message(R"({"samples": -1})").find("'samples'"), std::string::npos);
  EXPECT_NE(message(R"({"nodes": 5000000000})").find("'nodes'"), std::string::npos);
  EXPECT_NE(message(R"({"lost_tiers": [1]})").find("'lost_tiers'"), std::string::npos);
  EXPECT_NE(message(R"({"stages": {"sauce": {}}})").find("'stages'"), std::string::npos);
  EXPECT_NE(message(R"({"stages": {"disk": {"bytes": 0.5}}})").find("'stages.disk.bytes'"),
            std::string::npos);
}

}  // namespace
}  // namespace foreload
