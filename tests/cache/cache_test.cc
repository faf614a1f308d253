// SPDX-License-Identifier: Apache-2.0
#include "foreload/cache/cache.h"

#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "../temporary_folder.h"

namespace foreload {
namespace {

constexpr uint64_t kMiB = 1 << 20;

class CacheTest : public testing::Test {
 protected:
  std::shared_ptr<Cache> with_disk(uint64_t memory = kMiB, uint64_t disk = 8 * kMiB) const {
    return Cache::make({memory, {{root_ / "disk", disk}}});
  }
  static Result<void> write(Cache& cache, const std::string& name, const std::string& text) {
    const auto sink = cache.open_blob(name);
    // In two pieces.
    const auto bytes = std::as_bytes(std::span(text));
    FORELOAD_CHECK(sink->write(bytes.first(bytes.size() / 2)));
    FORELOAD_CHECK(sink->write(bytes.subspan(bytes.size() / 2)));
    return sink->commit();
  }
  static std::optional<std::string> read(Cache& cache, const std::string& name) {
    const auto bytes = cache.read_blob(name);
    EXPECT_TRUE(bytes);
    if (!bytes || !*bytes) return std::nullopt;
    return std::string(reinterpret_cast<const char*>((*bytes)->data()), (*bytes)->size());
  }

  const TemporaryFolder temporary_;
  const std::filesystem::path root_ = temporary_.path();
};

TEST_F(CacheTest, LendsWhatIsLeftAndTakesItBack) {
  const auto cache = with_disk();
  CacheBudgets wanted = cache->budgets();
  wanted.memory = 600'000;
  wanted.disks[0].bytes = 6 * kMiB;
  auto first = *cache->borrow(wanted);
  EXPECT_EQ(first->memory(), 600'000u);
  EXPECT_EQ(first->disk(0), 6 * kMiB);
  const auto second = *cache->borrow(wanted);
  EXPECT_EQ(second->memory(), kMiB - 600'000);
  EXPECT_EQ(second->disk(0), 2 * kMiB);
  EXPECT_EQ(cache->left().memory, 0u);
  first.reset();
  EXPECT_EQ(cache->left().memory, 600'000u);
  EXPECT_EQ(cache->left().disks[0].bytes, 6 * kMiB);
}

TEST_F(CacheTest, APartOfADiskThatHoldsNothingIsNotLent) {
  const auto cache = with_disk();
  CacheBudgets wanted = cache->budgets();
  wanted.disks[0].bytes -= Cache::kLeastDisk - 1;
  const auto most = *cache->borrow(wanted);
  EXPECT_EQ((*cache->borrow(wanted))->disk(0), 0u);
}

TEST_F(CacheTest, LendsToSoManyAtATime) {
  const auto cache = with_disk();
  std::vector<std::unique_ptr<Cache::Loan>> loans;
  for (size_t i = 0; i < Cache::kMostLoans; ++i) loans.push_back(*cache->borrow({}));
  EXPECT_EQ(cache->borrow({}).error().kind, ErrorKind::invalid);
  loans.pop_back();
  EXPECT_TRUE(cache->borrow({}));
}

TEST_F(CacheTest, EachTierIsOpenedOnce) {
  const auto cache = with_disk();
  const auto memory = *cache->memory({});
  EXPECT_EQ(memory, *cache->memory({.mean_size = 1}));
  EXPECT_EQ(memory->capacity(64 << 10), kMiB);
  DiskSharing sharing;
  const auto disk = *cache->disk(0, {}, &sharing);
  EXPECT_EQ(disk, *cache->disk(0, {}, nullptr));
  EXPECT_TRUE(sharing.others.empty());
}

TEST_F(CacheTest, ABlobIsWhatWasCommittedLast) {
  const auto cache = with_disk();
  EXPECT_EQ(read(*cache, "state"), std::nullopt);
  ASSERT_TRUE(write(*cache, "state", "first"));
  ASSERT_TRUE(write(*cache, "other", std::string(100'000, 'o')));
  ASSERT_TRUE(write(*cache, "state", "second, and longer"));
  EXPECT_EQ(read(*cache, "state"), "second, and longer");
  EXPECT_EQ(read(*cache, "other"), std::string(100'000, 'o'));
  const auto given_up = cache->open_blob("state");
  ASSERT_TRUE(given_up->write({}));
  given_up->abort();
  EXPECT_EQ(read(*cache, "state"), "second, and longer");
  ASSERT_TRUE(write(*cache, "nothing", ""));
  EXPECT_EQ(read(*cache, "nothing"), "");
}

TEST_F(CacheTest, BlobsOnADiskAreFoundAgain) {
  ASSERT_TRUE(write(*with_disk(), "state", "old"));
  ASSERT_TRUE(write(*with_disk(), "state", "new"));
  const auto cache = with_disk();
  EXPECT_EQ(read(*cache, "state"), "new");
  EXPECT_EQ(cache->left().disks[0].bytes, 8 * kMiB - 3);
}

// Another cache can use the folder once nobody borrows from this one, and finds what is there.
TEST_F(CacheTest, DisksAreFreeOnceAllIsGivenBack) {
  const auto first = with_disk();
  auto loan = *first->borrow({});
  ASSERT_TRUE(write(*first, "state", "kept"));
  loan.reset();
  const auto second = with_disk();
  EXPECT_EQ(read(*second, "state"), "kept");
}

TEST_F(CacheTest, BlobsTakeRoomThatNobodyHasBorrowed) {
  const auto cache = Cache::make({kMiB, {}});
  const auto loan = *cache->borrow({kMiB / 2, {}});
  ASSERT_TRUE(write(*cache, "small", std::string(kMiB / 4, 's')));
  const auto failed = write(*cache, "large", std::string(kMiB / 2, 'l'));
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error().message.find("large"), std::string::npos);
  EXPECT_EQ(read(*cache, "large"), std::nullopt);
  EXPECT_EQ(cache->left().memory, kMiB / 4);
  EXPECT_EQ((*cache->borrow({kMiB, {}}))->memory(), kMiB / 4);
}

// The old one was dropped before anybody knew whether the new one fits.
TEST_F(CacheTest, ABlobStaysIfWhatIsToReplaceItFitsNowhere) {
  const auto cache = Cache::make({kMiB, {}});
  ASSERT_TRUE(write(*cache, "state", std::string(kMiB / 2, 'a')));
  ASSERT_FALSE(write(*cache, "state", std::string(2 * kMiB, 'b')));
  EXPECT_EQ(read(*cache, "state"), std::string(kMiB / 2, 'a'));
  ASSERT_TRUE(write(*cache, "state", std::string(kMiB * 3 / 4, 'c')));
  EXPECT_EQ(read(*cache, "state"), std::string(kMiB * 3 / 4, 'c'));
}

TEST_F(CacheTest, ThreadsUseItAtOnce) {
  const auto cache = with_disk();
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number)
    threads.emplace_back([&, number] {
      const std::string name = std::to_string(number);
      for (int round = 0; round < 10; ++round) {
        const auto loan = cache->borrow({kMiB, {}});
        EXPECT_TRUE(write(*cache, name, name + std::string(1000, 'x')));
        EXPECT_EQ(read(*cache, name), name + std::string(1000, 'x'));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache->left().memory, kMiB);
}

}  // namespace
}  // namespace foreload
