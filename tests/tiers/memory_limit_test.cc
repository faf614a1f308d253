// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory_limit.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

class MemoryLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    write("proc/meminfo", "MemTotal: 900000 kB\nMemFree: 1 kB\nMemAvailable: 800000 kB\n");
  }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(MemoryLimitTest, IsWhatIsAvailableWithoutGroups) {
  EXPECT_EQ(memory_limit(root_).bytes, 800000u * 1024);
  EXPECT_EQ(memory_limit(root_).who, "what the system has available");
}

TEST_F(MemoryLimitTest, NobodyMayHaveSetOne) {
  fs::remove(root_ / "proc/meminfo");
  EXPECT_EQ(memory_limit(root_).bytes, UINT64_MAX);
}

TEST_F(MemoryLimitTest, KnowsVersionTwo) {
  write("sys/fs/cgroup/memory.max", "12345678\n");
  EXPECT_EQ(memory_limit(root_).bytes, 12345678u);
  EXPECT_NE(memory_limit(root_).who.find("memory.max"), std::string::npos);
}

TEST_F(MemoryLimitTest, WithoutALimitMaxIsWritten) {
  write("sys/fs/cgroup/memory.max", "max\n");
  EXPECT_EQ(memory_limit(root_).bytes, 800000u * 1024);
}

TEST_F(MemoryLimitTest, AGroupAboveMayBeTheTighterOne) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/memory.max", "1000000\n");
  write("sys/fs/cgroup/job/step/memory.max", "2000000\n");
  EXPECT_EQ(memory_limit(root_).bytes, 1000000u);
}

TEST_F(MemoryLimitTest, KnowsVersionOne) {
  write("proc/self/cgroup", "5:cpu:/x\n4:hugetlb,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory_limit(root_).bytes, 800000u * 1024);
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(memory_limit(root_).bytes, 700000u);
}

TEST_F(MemoryLimitTest, WhatIsLeftIsLessWhatIsUsedButNotThePageCache) {
  write("sys/fs/cgroup/memory.max", "1000000\n");
  write("sys/fs/cgroup/memory.current", "600000\n");
  write("sys/fs/cgroup/memory.stat", "anon 100\ninactive_file 250000\nactive_file 50000\n");
  EXPECT_EQ(memory_left(root_).bytes, 700000u);
  EXPECT_EQ(memory_limit(root_).bytes, 1000000u);
}

TEST_F(MemoryLimitTest, WhatIsLeftInVersionOne) {
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "600000\n");
  write("sys/fs/cgroup/memory/memory.stat", "cache 7\ntotal_inactive_file 200000\n");
  EXPECT_EQ(memory_left(root_).bytes, 600000u);
}

TEST_F(MemoryLimitTest, AGroupThatUsesMoreThanItsLimitLeavesNothing) {
  write("sys/fs/cgroup/memory.max", "1000\n");
  write("sys/fs/cgroup/memory.current", "2000\n");
  EXPECT_EQ(memory_left(root_).bytes, 0u);
}

}  // namespace
}  // namespace foreload
