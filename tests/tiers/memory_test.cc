// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory.h"

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/hash.h"
#include "foreload/base/random.h"
#include "foreload/tiers/memory_limit.h"

#include "memory_bytes.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

// Samples 1, 3 and 4 of ten, of 100, 0 and 300 bytes.
std::unique_ptr<MemoryTier> three_samples() {
  const std::vector<ArenaPlace> places{{1, 0, 100}, {3, 100, 0}, {4, 100, 300}};
  auto tier = MemoryTier::create(10, 400, places);
  EXPECT_TRUE(tier) << tier.error().message;
  return std::move(*tier);
}

void expect_refused(const Result<std::unique_ptr<MemoryTier>>& tier, const std::string& words) {
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().kind, ErrorKind::invalid);
  EXPECT_NE(tier.error().message.find(words), std::string::npos) << tier.error().message;
}

TEST(MemoryTierTest, GivesBackWhatWasPut) {
  const auto tier = three_samples();
  const Bytes bytes = some_bytes(1, 100);
  Bytes out(100);
  EXPECT_EQ(tier->get(1, out), Copied::miss);
  EXPECT_TRUE(put(*tier, 1, bytes));
  EXPECT_TRUE(tier->holds(1));
  uint64_t checksum = 0;
  EXPECT_EQ(tier->get(1, out, &checksum), Copied::hit);
  EXPECT_EQ(out, bytes);
  EXPECT_EQ(checksum, checksum64(bytes));
  EXPECT_EQ(tier->used(), 100u);
}

TEST(MemoryTierTest, KeepsEmptySamples) {
  const auto tier = three_samples();
  EXPECT_TRUE(put(*tier, 3, {}));
  EXPECT_TRUE(tier->holds(3));
  EXPECT_EQ(tier->get(3, {}), Copied::hit);
}

TEST(MemoryTierTest, RefusesWhatItDoesNotOwn) {
  const auto tier = three_samples();
  EXPECT_TRUE(tier->owns(4));
  for (const uint64_t sample : {0u, 2u, 9u, 10u, 1000u}) {
    EXPECT_FALSE(tier->owns(sample));
    EXPECT_FALSE(tier->holds(sample));
    EXPECT_FALSE(put(*tier, sample, some_bytes(1, 100)));
    Bytes out(100);
    EXPECT_EQ(tier->get(sample, out), Copied::miss);
    tier->drop(sample);
  }
}

TEST(MemoryTierTest, RefusesAnotherSize) {
  const auto tier = three_samples();
  EXPECT_FALSE(put(*tier, 1, some_bytes(1, 99)));
  EXPECT_FALSE(put(*tier, 1, some_bytes(1, 101)));
  EXPECT_FALSE(tier->holds(1));
  ASSERT_TRUE(put(*tier, 1, some_bytes(1, 100)));
  Bytes out(99);
  EXPECT_EQ(tier->get(1, out), Copied::miss);
}

TEST(MemoryTierTest, TheFirstPutWins) {
  const auto tier = three_samples();
  EXPECT_TRUE(put(*tier, 4, some_bytes(1, 300)));
  EXPECT_FALSE(put(*tier, 4, some_bytes(2, 300)));
  Bytes out(300);
  EXPECT_EQ(tier->get(4, out), Copied::hit);
  EXPECT_EQ(out, some_bytes(1, 300));
  EXPECT_EQ(tier->used(), 300u);
}

TEST(MemoryTierTest, ADroppedSampleCanBePutAgain) {
  const auto tier = three_samples();
  ASSERT_TRUE(put(*tier, 4, some_bytes(1, 300)));
  tier->drop(4);
  tier->drop(4);
  Bytes out(300);
  EXPECT_FALSE(tier->holds(4));
  EXPECT_EQ(tier->get(4, out), Copied::miss);
  EXPECT_EQ(tier->used(), 0u);
  EXPECT_TRUE(put(*tier, 4, some_bytes(2, 300)));
  EXPECT_EQ(tier->get(4, out), Copied::hit);
  EXPECT_EQ(out, some_bytes(2, 300));
}

TEST(MemoryTierTest, ChangedBytesAreCorruptThenGone) {
  const auto tier = three_samples();
  ASSERT_TRUE(put(*tier, 4, some_bytes(1, 300)));
  tier->poke(4)[150] ^= std::byte{1};
  Bytes out(300);
  EXPECT_EQ(tier->get(4, out), Copied::corrupt);
  EXPECT_EQ(tier->get(4, out), Copied::miss);
  EXPECT_EQ(tier->used(), 0u);
  EXPECT_TRUE(put(*tier, 4, some_bytes(1, 300)));
  EXPECT_EQ(tier->get(4, out), Copied::hit);
}

TEST(MemoryTierTest, SaysWhatFindingSamplesCosts) {
  std::vector<ArenaPlace> places;
  for (uint64_t i = 0; i < 1000; ++i) places.push_back({i * 2, i, 1});
  const auto tier = MemoryTier::create(2000, 1000, places);
  ASSERT_TRUE(tier);
  EXPECT_GE((*tier)->overhead(), 2000u * 4 + 1000 * 40);
  EXPECT_LE((*tier)->overhead(), 2000u * 4 + 1000 * 40 + 512);
}

// What places leave free goes to others, as long as it lasts.
TEST(MemoryTierTest, GuestsGetTheRoomThatIsLeft) {
  const std::vector<ArenaPlace> places{{1, 0, 100}, {4, 250, 100}};
  const auto tier = MemoryTier::create(10, 500, places);  // 150 bytes in each gap
  ASSERT_TRUE(tier);
  EXPECT_TRUE(put(**tier, 0, some_bytes(0, 150)));
  EXPECT_FALSE((*tier)->owns(0));
  EXPECT_TRUE(put(**tier, 2, some_bytes(2, 100)));
  EXPECT_FALSE(put(**tier, 3, some_bytes(3, 100)));  // 50 are left
  EXPECT_TRUE(put(**tier, 3, some_bytes(3, 50)));
  EXPECT_FALSE(put(**tier, 2, some_bytes(7, 100))) << "it is there";
  EXPECT_TRUE(put(**tier, 5, {}));
  EXPECT_TRUE(put(**tier, 1, some_bytes(1, 100)));
  EXPECT_TRUE(put(**tier, 4, some_bytes(4, 100)));
  EXPECT_EQ((*tier)->used(), 500u);
  for (const auto& [sample, size] :
       std::map<uint64_t, size_t>{{0, 150}, {1, 100}, {2, 100}, {3, 50}, {4, 100}}) {
    Bytes out(size);
    EXPECT_EQ((*tier)->get(sample, out), Copied::hit) << sample;
    EXPECT_EQ(out, some_bytes(sample, size)) << sample;
  }
}

TEST(MemoryTierTest, TheRoomOfADroppedGuestIsGivenAgain) {
  const auto tier = MemoryTier::create(10, 300, {});
  ASSERT_TRUE(tier);
  for (uint64_t sample = 0; sample < 3; ++sample)
    ASSERT_TRUE(put(**tier, sample, some_bytes(sample, 100)));
  (*tier)->drop(0);
  (*tier)->drop(2);
  EXPECT_FALSE(put(**tier, 3, some_bytes(3, 200))) << "not in one piece";
  (*tier)->drop(1);
  EXPECT_EQ((*tier)->used(), 0u);
  EXPECT_TRUE(put(**tier, 3, some_bytes(3, 300)));
  Bytes out(100);
  EXPECT_EQ((*tier)->get(1, out), Copied::miss);
  Bytes all(300);
  EXPECT_EQ((*tier)->get(3, all), Copied::hit);
  EXPECT_EQ(all, some_bytes(3, 300));
}

TEST(MemoryTierTest, ACorruptGuestGoes) {
  const auto tier = MemoryTier::create(10, 100, {});
  ASSERT_TRUE(tier);
  ASSERT_TRUE(put(**tier, 7, some_bytes(7, 100)));
  (*tier)->poke(7)[3] ^= std::byte{1};
  Bytes out(100);
  EXPECT_EQ((*tier)->get(7, out), Copied::corrupt);
  EXPECT_FALSE((*tier)->holds(7));
  EXPECT_TRUE(put(**tier, 8, some_bytes(8, 100))) << "its room is free";
}

TEST(MemoryTierTest, MayOwnNothing) {
  const auto tier = MemoryTier::create(5, 0, {});
  ASSERT_TRUE(tier) << tier.error().message;
  EXPECT_FALSE((*tier)->owns(0));
}

TEST(MemoryTierTest, RefusesWrongPlaces) {
  using Places = std::vector<ArenaPlace>;
  expect_refused(MemoryTier::create(10, 100, Places{{10, 0, 1}}), "is not in the data set");
  expect_refused(MemoryTier::create(10, 100, Places{{2, 0, 1}, {2, 1, 1}}), "out of order");
  expect_refused(MemoryTier::create(10, 100, Places{{2, 90, 11}}), "ends outside of the tier");
  expect_refused(MemoryTier::create(10, 100, Places{{2, UINT64_MAX, 2}}),
                 "ends outside of the tier");
  expect_refused(MemoryTier::create(10, 100, Places{{2, 0, 11}, {3, 10, 1}}), "overlap");
}

TEST(MemoryTierTest, RefusesABudgetBeyondTheLimit) {
  const auto tier = MemoryTier::create(10, uint64_t{1} << 50, {});
  expect_refused(tier, "cannot use a memory budget of 1");
  expect_refused(tier, "lower the memory budget");
}

// Many threads on few samples, with places of their own or as guests: every hit must be one of the
// values somebody put, as a whole. The thread sanitizer sees whether a put can overlap a copy out.
class MemoryTierThreads : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, MemoryTierThreads, testing::Bool(),
                         [](const auto& guests) { return guests.param ? "Guests" : "Owned"; });

TEST_P(MemoryTierThreads, MayDoEverythingAtOnce) {
  constexpr uint64_t kSamples = 3;
  constexpr uint64_t kVariants = 4;
  constexpr size_t kSize = 2000;
  std::vector<ArenaPlace> places;
  for (uint64_t i = 0; i < kSamples && !GetParam(); ++i) places.push_back({i, i * kSize, kSize});
  const auto tier = MemoryTier::create(kSamples, kSamples * kSize, places);
  ASSERT_TRUE(tier);
  std::vector<Bytes> variants;
  for (uint64_t v = 0; v < kVariants; ++v) variants.push_back(some_bytes(v, kSize));

  constexpr unsigned kThreads = 6;
  constexpr uint64_t kSteps = 4000;
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> hits{0};
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      Bytes out(kSize);
      for (uint64_t step = 0; step < kSteps; ++step) {
        const uint64_t random = mix64((uint64_t{t} << 32) + step + 1);
        const uint64_t sample = random % kSamples;
        switch (random / 16 % 8) {
          case 0:
            (*tier)->drop(sample);
            break;
          case 1:
          case 2:
            put(**tier, sample, variants[random / 1024 % kVariants]);
            break;
          default: {
            const Copied copied = (*tier)->get(sample, out);
            if (copied == Copied::corrupt) ++wrong;
            if (copied == Copied::hit) {
              ++hits;
              if (std::find(variants.begin(), variants.end(), out) == variants.end()) ++wrong;
            }
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(hits, 0u);
  uint64_t held = 0;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    if ((*tier)->holds(sample)) held += kSize;
    (*tier)->drop(sample);
    EXPECT_TRUE(put(**tier, sample, variants[0]));  // no reader was forgotten
  }
  EXPECT_LE(held, kSamples * kSize);
  EXPECT_EQ((*tier)->used(), kSamples * kSize);
}

class MemoryLimitTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "foreload-limit-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    write("proc/meminfo", "MemTotal: 900000 kB\nMemFree: 1 kB\nMemAvailable: 800000 kB\n");
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  fs::path root_;
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
