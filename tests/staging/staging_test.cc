// SPDX-License-Identifier: Apache-2.0
#include "foreload/staging/staging.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

using Sizes = std::vector<uint64_t>;

// Counts what is out, and refuses when told to.
class CountingAllocator : public SlotAllocator {
 public:
  struct Counts {
    std::atomic<uint64_t> bytes_out{0};
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> most_bytes{UINT64_MAX};
  };
  explicit CountingAllocator(std::shared_ptr<Counts> counts) : counts_(std::move(counts)) {}

  std::byte* allocate(size_t bytes) override {
    ++counts_->calls;
    if (counts_->bytes_out + bytes > counts_->most_bytes) return nullptr;
    counts_->bytes_out += bytes;
    return static_cast<std::byte*>(::operator new(bytes, std::align_val_t{64}));
  }
  void release(std::byte* memory, size_t bytes) override {
    counts_->bytes_out -= bytes;
    ::operator delete(memory, std::align_val_t{64});
  }

 private:
  const std::shared_ptr<Counts> counts_;
};

class StagingTest : public ::testing::Test {
 protected:
  std::shared_ptr<Staging> make(uint64_t budget) {
    return Staging::create(budget, std::make_unique<CountingAllocator>(counts_));
  }
  static std::shared_ptr<Slot> take(Staging& staging, const Sizes& sizes) {
    auto slot = staging.take(sizes);
    EXPECT_TRUE(slot) << slot.error().message;
    return slot ? *slot : nullptr;
  }

  const std::shared_ptr<CountingAllocator::Counts> counts_ =
      std::make_shared<CountingAllocator::Counts>();
};

TEST_F(StagingTest, RangesAreAlignedApartAndWritable) {
  for (auto& staging : {make(1 << 20), Staging::create(1 << 20)}) {
    const Sizes sizes{1, 64, 0, 65, 5'000, 0};
    auto slot = take(*staging, sizes);
    ASSERT_EQ(slot->samples(), sizes.size());
    for (size_t i = 0; i < sizes.size(); ++i) {
      ASSERT_EQ(slot->range(i).size(), sizes[i]);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(slot->range(i).data()) % 64, 0);
      std::ranges::fill(slot->range(i), static_cast<std::byte>(i + 1));
    }
    const Slot& filled = *slot;
    for (size_t i = 0; i < sizes.size(); ++i) {
      for (const std::byte byte : filled.range(i)) ASSERT_EQ(byte, static_cast<std::byte>(i + 1));
    }
  }
}

TEST_F(StagingTest, SlotBytesSaysWhatTakeUses) {
  auto staging = make(0);
  const Sizes sizes{1, 64, 0, 65, 5'000};
  EXPECT_EQ(Staging::slot_bytes(sizes), 64 + 64 + 128 + 5'056);
  EXPECT_EQ(take(*staging, sizes)->bytes(), Staging::slot_bytes(sizes));
  EXPECT_EQ(Staging::aligned(0), 0);
  EXPECT_EQ(Staging::slot_bytes({}), 0);
}

TEST_F(StagingTest, BatchesWithoutBytesTakeNoMemory) {
  auto staging = make(1'000);
  EXPECT_EQ(take(*staging, {})->samples(), 0);
  const auto slot = take(*staging, {0, 0});
  EXPECT_EQ(slot->samples(), 2);
  EXPECT_TRUE(slot->range(1).empty());
  EXPECT_EQ(slot->bytes(), 0);
  EXPECT_EQ(counts_->calls, 0);
}

TEST_F(StagingTest, ReleasedMemoryIsUsedAgain) {
  auto staging = make(1 << 20);
  const std::byte* const memory = take(*staging, {6'400})->range(0).data();
  EXPECT_EQ(take(*staging, {6'400})->range(0).data(), memory);
  EXPECT_EQ(take(*staging, {5'760})->range(0).data(), memory);
  EXPECT_EQ(staging->totals().allocated, 1);
}

TEST_F(StagingTest, WithoutBudgetMemoryGoesBackAtOnce) {
  auto staging = make(0);
  for (uint64_t calls = 1; calls <= 3; ++calls) {
    take(*staging, {6'400});
    EXPECT_EQ(counts_->calls, calls);
    EXPECT_EQ(counts_->bytes_out, 0);
  }
}

TEST_F(StagingTest, TakesTheSmallestBlockThatFits) {
  auto staging = make(1 << 20);
  const std::byte* fitting = nullptr;
  {
    const auto large = take(*staging, {9'984});
    const auto right = take(*staging, {9'600});
    const auto small = take(*staging, {6'400});
    fitting = right->range(0).data();
  }
  EXPECT_EQ(take(*staging, {9'000})->range(0).data(), fitting);
}

TEST_F(StagingTest, BlockAnEighthTooLargeIsLeftAlone) {
  auto staging = make(1 << 20);
  take(*staging, {6'400});
  take(*staging, {5'632});
  EXPECT_EQ(staging->totals().allocated, 2);
}

TEST_F(StagingTest, WhoeverKeepsEveryBatchGetsNewMemoryEveryTime) {
  auto staging = make(1 << 20);
  std::vector<std::shared_ptr<Slot>> kept;
  std::set<const std::byte*> places;
  for (int i = 0; i < 50; ++i) {
    kept.push_back(take(*staging, {1'000}));
    places.insert(kept.back()->range(0).data());
    kept.back()->range(0)[0] = static_cast<std::byte>(i);
  }
  EXPECT_EQ(places.size(), 50);
  for (size_t i = 0; i < 50; ++i) EXPECT_EQ(kept[i]->range(0)[0], static_cast<std::byte>(i));
}

TEST_F(StagingTest, TotalsAreExact) {
  auto staging = make(20'000);
  auto first = take(*staging, {6'400});
  auto second = take(*staging, {12'800});
  EXPECT_EQ(staging->totals().in_use, 19'200);
  EXPECT_EQ(staging->totals().pooled, 0);
  first.reset();
  EXPECT_EQ(staging->totals().in_use, 12'800);
  EXPECT_EQ(staging->totals().pooled, 6'400);
  // Counted as the block it sits in.
  first = take(*staging, {5'760});
  EXPECT_EQ(staging->totals().in_use, 19'200);
  EXPECT_EQ(staging->totals().pooled, 0);
  EXPECT_EQ(staging->totals().allocated, 2);
  EXPECT_EQ(counts_->bytes_out, 19'200);
}

TEST_F(StagingTest, BudgetCoversSlotsAndPoolAndTheOldestIsForgotten) {
  auto staging = make(20'000);
  auto oldest = take(*staging, {6'400});
  auto second = take(*staging, {6'464});
  auto third = take(*staging, {12'800});
  oldest.reset();
  EXPECT_EQ(staging->totals().pooled, 0) << "no room beside the slots in use";
  second.reset();
  third.reset();
  EXPECT_EQ(staging->totals().pooled, 6'464 + 12'800);
  EXPECT_EQ(counts_->bytes_out, 6'464 + 12'800);
  take(*staging, {64'000});
  EXPECT_EQ(staging->totals().pooled, 0) << "a slot larger than the budget pushes out everything";
}

TEST_F(StagingTest, NewSlotPushesOutWhatWouldNotFitBesideIt) {
  auto staging = make(20'000);
  take(*staging, {6'400});
  const auto other = take(*staging, {12'800});
  EXPECT_EQ(staging->totals().pooled, 6'400) << "both fit";
  const auto third = take(*staging, {4'096});
  EXPECT_EQ(staging->totals().pooled, 0);
  EXPECT_EQ(counts_->bytes_out, 12'800 + 4'096);
}

TEST_F(StagingTest, SlotOutlivesTheStaging) {
  auto staging = make(1 << 20);
  auto slot = take(*staging, {6'400});
  take(*staging, {128});
  staging.reset();
  EXPECT_EQ(counts_->bytes_out, 6'400) << "the pool is of no use any more";
  std::ranges::fill(slot->range(0), std::byte{1});
  slot.reset();
  EXPECT_EQ(counts_->bytes_out, 0);
}

TEST_F(StagingTest, NoMemoryIsOneClearLine) {
  counts_->most_bytes = 10'000;
  auto staging = make(1 << 20);
  const auto held = take(*staging, {6'400});
  const auto slot = staging->take(Sizes{4'096, 4'096});
  ASSERT_FALSE(slot);
  EXPECT_EQ(slot.error().kind, ErrorKind::invalid);
  EXPECT_EQ(slot.error().message,
            "cannot allocate 8.0 KiB for a batch of 2 samples: out of memory, other batches hold "
            "6.2 KiB. Use a smaller batch or look-ahead.");
  EXPECT_EQ(staging->totals().in_use, 6'400);
  EXPECT_EQ(staging->totals().allocated, 1);
}

TEST_F(StagingTest, PoolGivesWayBeforeMemoryIsSaidToBeOut) {
  counts_->most_bytes = 10'000;
  auto staging = make(1 << 20);
  take(*staging, {1'024});
  EXPECT_EQ(take(*staging, {9'984})->bytes(), 9'984);
}

TEST_F(StagingTest, SizesBeyondCountingFail) {
  counts_->most_bytes = 10'000;
  for (auto& staging : {make(0), Staging::create(0)}) {
    EXPECT_FALSE(staging->take(Sizes{UINT64_MAX, 5}));
    EXPECT_FALSE(staging->take(Sizes{UINT64_MAX / 2, UINT64_MAX / 2, 10'000}));
    EXPECT_FALSE(staging->take(Sizes{uint64_t{1} << 62}));
  }
}

TEST_F(StagingTest, ManyThreadsTakeFillAndRelease) {
  auto staging = make(200'000);
  std::atomic<int> spoiled{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::shared_ptr<Slot>> held(4);
      for (uint64_t i = 0; i < 2'000; ++i) {
        const auto random = philox(t, i);
        std::shared_ptr<Slot>& slot = held[i % held.size()];
        if (slot != nullptr) {
          const auto mark = slot->range(0)[0];
          for (std::byte byte : slot->range(1)) spoiled += byte != mark;
        }
        slot = take(*staging, {1, 1 + random[0] % 5'000});
        slot->range(0)[0] = static_cast<std::byte>(random[1]);
        std::ranges::fill(slot->range(1), static_cast<std::byte>(random[1]));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(spoiled, 0);
  const StagingTotals totals = staging->totals();
  EXPECT_EQ(totals.in_use, 0);
  EXPECT_LE(totals.pooled, 200'000);
  EXPECT_EQ(totals.pooled, counts_->bytes_out);
  EXPECT_EQ(totals.allocated, counts_->calls);
}

TEST_F(StagingTest, SlotFilledByOneThreadMayBeReleasedByAnother) {
  auto staging = make(1 << 20);
  auto slot = take(*staging, {640, 640});
  std::thread other([slot = slot]() mutable {
    std::ranges::fill(slot->range(1), std::byte{2});
    slot.reset();
  });
  std::ranges::fill(slot->range(0), std::byte{1});
  slot.reset();
  other.join();
  EXPECT_EQ(staging->totals().in_use, 0);
  EXPECT_EQ(staging->totals().pooled, 1'280);
}

TEST(PageAllocator, GivesAlignedZeroedPages) {
  const auto allocator = page_allocator();
  for (const size_t bytes : {size_t{1}, size_t{5'000}, size_t{3} << 20}) {
    std::byte* const memory = allocator->allocate(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 4'096, 0);
    EXPECT_EQ(memory[bytes - 1], std::byte{0});
    allocator->release(memory, bytes);
  }
  EXPECT_EQ(allocator->allocate(size_t{1} << 62), nullptr);
}

}  // namespace
}  // namespace foreload
