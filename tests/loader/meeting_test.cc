// SPDX-License-Identifier: Apache-2.0
//
// How a meeting is arranged from the environment: what is chosen, and what is said when something
// is missing. That ranks really meet is tested with processes, in tests/python.
#include "foreload/loader/meeting.h"

#include <map>

#include <gtest/gtest.h>

#include "loader_fixture.h"

namespace foreload {
namespace {

using Environment = std::map<std::string, std::string>;

class MeetingTest : public LoaderTest {
 protected:
  Result<std::optional<Meeting>> arrange(const JobRanks& ranks, const std::string& transport,
                                         Environment environment) {
    MeetingSettings settings;
    settings.transport = transport;
    settings.timeout = std::chrono::milliseconds(50);
    settings.variable = [environment = std::move(environment)](const char* name) {
      const auto found = environment.find(name);
      return found == environment.end() ? std::string() : found->second;
    };
    return Meeting::arrange(ranks, settings, warning_);
  }
  void expect_error(const Result<std::optional<Meeting>>& arranged, const std::string& text) {
    ASSERT_FALSE(arranged);
    EXPECT_NE(arranged.error().message.find(text), std::string::npos) << arranged.error().message;
  }

  const JobRanks two_nodes_{0, 2, 0, 1, "RANK"};
  std::string warning_;
};

TEST_F(MeetingTest, OneRankMeetsNobody) {
  const auto arranged = arrange(JobRanks(), "auto", {});
  ASSERT_TRUE(arranged);
  EXPECT_FALSE(*arranged);
  const auto none = arrange(two_nodes_, "none", {});
  ASSERT_TRUE(none);
  EXPECT_FALSE(*none);
  EXPECT_EQ(warning_, "");
}

TEST_F(MeetingTest, WhatIsMissingIsNamed) {
  expect_error(arrange(two_nodes_, "tcp", {}), "'tcp'");
  expect_error(arrange(two_nodes_, "ucx", {}), "FORELOAD_RENDEZVOUS");
  const std::string folder = (root_ / "meet").string();
  expect_error(arrange(two_nodes_, "ucx", {{"FORELOAD_RENDEZVOUS", folder}}), "FORELOAD_INTERFACE");
  expect_error(
      arrange(two_nodes_, "ucx", {{"FORELOAD_RENDEZVOUS", folder}, {"FORELOAD_INTERFACE", "lo"}}),
      "FORELOAD_SECRET");
  expect_error(arrange(two_nodes_, "ucx", {{"MASTER_ADDR", "localhost"}, {"MASTER_PORT", "no"}}),
               "MASTER_PORT");
}

// The folder has no UCX, so that none is found, whatever the system has.
TEST_F(MeetingTest, WithoutUcxRanksOfOneHostShare) {
  const Environment environment{{"FORELOAD_RENDEZVOUS", (root_ / "meet").string()},
                                {"FORELOAD_JOB", "first"},
                                {"FORELOAD_UCX_LIBRARY", root_.string()}};
  const auto arranged = arrange({0, 2, 0, 2, "RANK"}, "auto", environment);
  ASSERT_TRUE(arranged) << arranged.error().message;
  ASSERT_TRUE(*arranged);
  const JoinSettings join = (*arranged)->join(0, std::chrono::seconds(1));
  EXPECT_EQ(join.transport, "host");
  EXPECT_EQ(join.why, "auto: no UCX library was found, and all ranks are on one host");
  EXPECT_EQ(warning_, "");
  const auto alone = arrange(two_nodes_, "auto", environment);
  ASSERT_TRUE(alone);
  EXPECT_FALSE(*alone);
  EXPECT_NE(warning_.find("for itself alone"), std::string::npos) << warning_;
  expect_error(arrange(two_nodes_, "host", environment), "all ranks on one host");
}

// Rank 5 of 6 is below rank 1. Loaders do not see what others pass on.
TEST_F(MeetingTest, ManyRanksPassOnWhatRankZeroHas) {
  MeetingSettings settings;
  settings.transport = "host";
  auto store = folder_rendezvous(root_ / "meet", "job");
  ASSERT_TRUE(store);
  settings.rendezvous = std::move(*store);
  const auto one = Meeting::arrange({1, 6, 1, 6, "RANK"}, settings, warning_);
  const auto five = Meeting::arrange({5, 6, 5, 6, "RANK"}, settings, warning_);
  ASSERT_TRUE(one && *one && five && *five);
  const auto timeout = std::chrono::seconds(30);
  const auto below = (*one)->join(7, timeout).rendezvous->below();
  const auto above = (*five)->join(7, timeout).rendezvous->above();
  ASSERT_TRUE(below && above);
  ASSERT_TRUE(below->put("key", "value"));
  EXPECT_EQ(above->get("key", timeout).value_or("nothing"), "value");
  EXPECT_FALSE((*five)->join(8, timeout).rendezvous->above()->get("key", {}));
  EXPECT_FALSE((*five)->join(7, timeout).rendezvous->below());
}

TEST_F(MeetingTest, AFolderNeedsANameForEachAttempt) {
  ::setenv("XDG_RUNTIME_DIR", root_.c_str(), 1);  // for the secret
  const JobRanks one_node{0, 2, 0, 2, "RANK"};
  const std::string folder = (root_ / "meet").string();
  expect_error(arrange(one_node, "ucx", {{"FORELOAD_RENDEZVOUS", folder}}), "FORELOAD_JOB");
  const auto arranged =
      arrange(one_node, "ucx", {{"FORELOAD_RENDEZVOUS", folder}, {"FORELOAD_JOB", "first"}});
  ASSERT_TRUE(arranged) << arranged.error().message;
  ASSERT_TRUE(*arranged);
  const JoinSettings join = (*arranged)->join(3, std::chrono::seconds(1));
  EXPECT_EQ(join.transport, "ucx");
  EXPECT_EQ(join.interface, "lo");
  EXPECT_EQ(join.why, "asked for");
  ASSERT_TRUE(join.rendezvous->put("key", "value"));
  EXPECT_TRUE(std::filesystem::exists(root_ / "meet" / "first" / "3%2Ekey"));
  ::unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace foreload
