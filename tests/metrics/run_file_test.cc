// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/run_file.h"

#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "../temporary_folder.h"

namespace foreload {
namespace {

using nlohmann::json;

class RunFileTest : public ::testing::Test {
 protected:
  // Every line must parse.
  std::vector<json> lines() const {
    std::ifstream in(file_);
    std::vector<json> found;
    for (std::string line; std::getline(in, line);) found.push_back(json::parse(line));
    return found;
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  const std::filesystem::path file_ = folder_ / "run.jsonl";
};

TEST_F(RunFileTest, HeaderComesFirstWithTheVersion) {
  ASSERT_TRUE(RunFile::create(file_, R"({"seed": 7, "digest": "ab"})"));
  std::ifstream in(file_);
  std::string line;
  ASSERT_TRUE(std::getline(in, line));
  EXPECT_EQ(line, R"({"foreload_run":2,"seed":7,"digest":"ab"})");
}

TEST_F(RunFileTest, HeaderCannotChangeTheVersion) {
  ASSERT_TRUE(RunFile::create(file_, R"({"foreload_run": 99})"));
  EXPECT_EQ(lines().at(0), json::parse(R"({"foreload_run":2})"));
}

TEST_F(RunFileTest, EveryRecordIsOneLineThatIsThereAtOnce) {
  auto run = RunFile::create(file_, "{}");
  ASSERT_TRUE(run) << run.error().message;
  ASSERT_TRUE(run->append("{\n  \"epoch\": 0,\n  \"note\": \"a\\nb\"\n}"));
  ASSERT_EQ(lines().size(), 2);
  EXPECT_EQ(lines()[1]["note"], "a\nb");
  ASSERT_TRUE(run->append(R"({"epoch": 1})"));
  ASSERT_EQ(lines().size(), 3);
  EXPECT_EQ(lines()[2]["epoch"], 1);
}

TEST_F(RunFileTest, ReplacesAnOlderFile) {
  std::ofstream(file_) << "something much longer than a header, on a line of its own\n";
  ASSERT_TRUE(RunFile::create(file_, "{}"));
  EXPECT_EQ(lines().size(), 1);
}

TEST_F(RunFileTest, TwoRunsDoNotShareAFile) {
  auto first = RunFile::create(file_, R"({"run": 1})");
  ASSERT_TRUE(first);
  const auto second = RunFile::create(file_, R"({"run": 2})");
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("another run is writing it"), std::string::npos);
  ASSERT_TRUE(first->append(R"({"epoch": 0})"));
  EXPECT_EQ(lines().at(0)["run"], 1);
  EXPECT_EQ(lines().size(), 2u);
  first = tl::unexpected(Error{});
  EXPECT_TRUE(RunFile::create(file_, R"({"run": 3})"));
}

TEST_F(RunFileTest, CanBeMoved) {
  auto first = RunFile::create(file_, "{}");
  auto second = RunFile::create(folder_ / "other.jsonl", "{}");
  ASSERT_TRUE(first && second);
  RunFile moved(std::move(*first));
  ASSERT_TRUE(moved.append(R"({"epoch": 0})"));
  moved = std::move(*second);
  ASSERT_TRUE(moved.append(R"({"epoch": 1})"));
  EXPECT_EQ(lines().size(), 2);
}

TEST_F(RunFileTest, RefusesWhatIsNoObject) {
  const auto bad = RunFile::create(file_, "[1]");
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().kind, ErrorKind::invalid);
  EXPECT_FALSE(std::filesystem::exists(file_));
  auto run = RunFile::create(file_, "{}");
  ASSERT_TRUE(run);
  for (const char* text : {"", "{", "3", "{} {}", "{\"a\": \"\xff\"}"}) {
    EXPECT_FALSE(run->append(text)) << text;
  }
  EXPECT_EQ(lines().size(), 1);
}

TEST_F(RunFileTest, UnwritablePathIsOneLine) {
  const auto run = RunFile::create(folder_ / "missing" / "run.jsonl", "{}");
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().kind, ErrorKind::unreadable);
  EXPECT_EQ(run.error().message,
            "cannot write run file " + (folder_ / "missing" / "run.jsonl").native() +
                ": No such file or directory. Check that its folder exists, is "
                "writable and has space left.");
}

TEST_F(RunFileTest, FullDeviceIsReported) {
  const auto run = RunFile::create("/dev/full", "{}");
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message.find("No space left"), std::string::npos) << run.error().message;
}

TEST_F(RunFileTest, RecordThatDoesNotFitLeavesNoHalfLine) {
  auto run = RunFile::create(file_, "{}");
  ASSERT_TRUE(run);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto failed = run->append(R"({"long": ")" + std::string(500, 'x') + R"("})");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);

  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().kind, ErrorKind::unreadable);
  ASSERT_TRUE(run->append(R"({"epoch": 0})"));
  ASSERT_EQ(lines().size(), 2);
  EXPECT_EQ(lines()[1]["epoch"], 0);
}

}  // namespace
}  // namespace foreload
