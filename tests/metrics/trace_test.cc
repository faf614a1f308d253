// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/trace.h"

#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "foreload/base/random.h"

#include "../temporary_folder.h"

namespace foreload {
namespace {

using nlohmann::json;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

class TraceTest : public ::testing::Test {
 protected:
  static Trace::Time at(int64_t us) { return Trace::Time(microseconds(1'000'000 + us)); }

  json saved(const Trace& trace) const {
    const auto result = trace.save(file_);
    EXPECT_TRUE(result) << result.error().message;
    std::ifstream in(file_);
    return json::parse(in).at("traceEvents");
  }

  static std::vector<json> of_kind(const json& events, const char* phase) {
    std::vector<json> found;
    for (const json& event : events) {
      if (event["ph"] == phase) found.push_back(event);
    }
    return found;
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path folder_ = temporary_.path();
  const std::filesystem::path file_ = folder_ / "trace.json";
};

TEST_F(TraceTest, EmptyOneParses) {
  EXPECT_TRUE(saved(Trace()).empty());
}

TEST_F(TraceTest, SpanHasTimesFromTheStartAndItsDetail) {
  Trace trace;
  trace.span("loop", "late", at(20), at(25), 2);
  trace.span("source", "read \"x\"", at(0), at(10) + nanoseconds(500), 42);
  const auto spans = of_kind(saved(trace), "X");
  ASSERT_EQ(spans.size(), 2);
  EXPECT_EQ(spans[0]["name"], "read \"x\"");
  EXPECT_EQ(spans[0]["ts"], 0);
  EXPECT_EQ(spans[0]["dur"], 10.5);
  EXPECT_EQ(spans[0]["args"]["detail"], 42);
  EXPECT_EQ(spans[1]["ts"], 20);
}

TEST_F(TraceTest, ValueIsACounter) {
  Trace trace;
  trace.value("reads in flight", at(0), 3);
  trace.value("reads in flight", at(5), 4.25);
  trace.value("reads in flight", at(6), std::numeric_limits<double>::quiet_NaN());
  const auto values = of_kind(saved(trace), "C");
  ASSERT_EQ(values.size(), 2);
  EXPECT_EQ(values[1]["name"], "reads in flight");
  EXPECT_EQ(values[1]["ts"], 5);
  EXPECT_EQ(values[1]["args"]["value"], 4.25);
}

TEST_F(TraceTest, OverlappingSpansGetLanesOfTheirTrack) {
  Trace trace;
  for (uint64_t i = 0; i < 500; ++i) {
    const auto random = philox(3, i);
    const auto begin = static_cast<int64_t>(random[0] % 10'000);
    trace.span(random[1] % 2 == 0 ? "disk" : "source", "read", at(begin),
               at(begin + random[2] % 200), i);
  }
  const json events = saved(trace);
  std::map<int, std::string> names;
  for (const json& event : of_kind(events, "M")) {
    if (event["name"] == "thread_name") names[event["tid"]] = event["args"]["name"];
  }
  std::map<int, double> free_at;
  for (const json& span : of_kind(events, "X")) {
    const int thread = span["tid"];
    EXPECT_GE(span["ts"].get<double>() + 1e-6, free_at[thread]);
    free_at[thread] = span["ts"].get<double>() + span["dur"].get<double>();
    const bool disk = philox(3, span["args"]["detail"])[1] % 2 == 0;
    EXPECT_EQ(names.at(thread).rfind(disk ? "disk" : "source", 0), 0) << names.at(thread);
  }
  EXPECT_EQ(free_at.size(), names.size());
  EXPECT_GT(names.size(), 4);
  EXPECT_LT(names.size(), 40);
}

TEST_F(TraceTest, SpansOneAfterTheOtherShareALane) {
  Trace trace;
  trace.span("loop", "a", at(0), at(5), 0);
  trace.span("loop", "b", at(5), at(5), 0);
  trace.span("loop", "c", at(5), at(9), 0);
  std::set<int> threads;
  for (const json& span : of_kind(saved(trace), "X")) threads.insert(span["tid"].get<int>());
  EXPECT_EQ(threads.size(), 1);
}

TEST_F(TraceTest, DropsTheOldestBeyondTheLimit) {
  Trace trace(3);
  for (uint64_t i = 0; i < 10; ++i) trace.span("loop", "step", at(i * 10), at(i * 10 + 1), i);
  const auto spans = of_kind(saved(trace), "X");
  ASSERT_EQ(spans.size(), 3);
  EXPECT_EQ(spans[0]["args"]["detail"], 7);
}

TEST_F(TraceTest, ManyThreadsMayRecordWhileItIsSaved) {
  Trace trace;
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&trace] {
      for (int64_t i = 0; i < 1'000; ++i) {
        trace.span("source", "read", at(i), at(i + 3), 0);
        trace.value("level", at(i), 4);
      }
    });
  }
  saved(trace);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(of_kind(saved(trace), "X").size(), 4'000);
}

TEST_F(TraceTest, ReplacesTheFileAndLeavesNothingElse) {
  std::ofstream(file_) << "old";
  Trace trace;
  trace.span("loop", "a", at(0), at(5), 0);
  EXPECT_EQ(of_kind(saved(trace), "X").size(), 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

TEST_F(TraceTest, UnwritablePathIsOneLine) {
  const auto result = Trace().save(folder_ / "missing" / "trace.json");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind, ErrorKind::unreadable);
  EXPECT_EQ(result.error().message, "cannot write trace " +
                                        (folder_ / "missing" / "trace.json").native() +
                                        ": No such file or directory. Check that its folder "
                                        "exists, is writable and has space left.");
}

TEST_F(TraceTest, FolderInTheWayIsAnErrorThatLeavesNothing) {
  std::filesystem::create_directories(file_ / "inside");
  EXPECT_FALSE(Trace().save(file_));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
}

}  // namespace
}  // namespace foreload
