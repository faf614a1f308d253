// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory_view.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/hash.h"
#include "foreload/base/random.h"

#include "memory_bytes.h"

namespace foreload {
namespace {

constexpr Digest kPlan{17, 4};

// Sample 1 has a place of its own, 300 bytes are left for others.
std::unique_ptr<MemoryTier> shared_tier() {
  const std::vector<ArenaPlace> places{{1, 0, 100}};
  auto tier = MemoryTier::create(10, 400, places, kPlan);
  EXPECT_TRUE(tier) << tier.error().message;
  return std::move(*tier);
}

std::shared_ptr<const MemoryView> view_of(const MemoryTier& tier) {
  auto view = MemoryView::map(tier.memory(), 10, kPlan);
  EXPECT_TRUE(view) << view.error().message;
  return view ? *view : nullptr;
}

TEST(MemoryViewTest, SeesWhatIsPutAndDropped) {
  const auto tier = shared_tier();
  const auto view = view_of(*tier);
  for (const uint64_t sample : {1u, 6u}) {
    Bytes out(100);
    EXPECT_EQ(view->get(sample, out), Copied::miss);
    ASSERT_TRUE(put(*tier, sample, some_bytes(sample, 100)));
    EXPECT_EQ(view->get(sample, out), Copied::hit);
    EXPECT_EQ(out, some_bytes(sample, 100));
    Bytes short_out(99);
    EXPECT_EQ(view->get(sample, short_out), Copied::miss);
    tier->drop(sample);
    EXPECT_EQ(view->get(sample, out), Copied::miss);
  }
  Bytes out(100);
  EXPECT_EQ(view->get(10, out), Copied::miss);
}

TEST(MemoryViewTest, EmptySamplesAreThereToo) {
  const auto tier = shared_tier();
  const auto view = view_of(*tier);
  EXPECT_EQ(view->get(2, {}), Copied::miss);
  ASSERT_TRUE(put(*tier, 2, {}));
  EXPECT_EQ(view->get(2, {}), Copied::hit);
}

TEST(MemoryViewTest, NeverTakesAnotherSampleForTheOneItWants) {
  const auto tier = shared_tier();
  const auto view = view_of(*tier);
  ASSERT_TRUE(put(*tier, 6, some_bytes(6, 300)));
  tier->drop(6);
  ASSERT_TRUE(put(*tier, 7, some_bytes(7, 300)));  // in the room and entry of 6
  Bytes out(300);
  EXPECT_EQ(view->get(6, out), Copied::miss);
  EXPECT_EQ(view->get(7, out), Copied::hit);
  EXPECT_EQ(out, some_bytes(7, 300));
}

TEST(MemoryViewTest, ChangedBytesAreCorrupt) {
  const auto tier = shared_tier();
  const auto view = view_of(*tier);
  ASSERT_TRUE(put(*tier, 1, some_bytes(1, 100)));
  tier->poke(1)[99] ^= std::byte{128};
  Bytes out(100);
  EXPECT_EQ(view->get(1, out), Copied::corrupt);
}

TEST(MemoryViewTest, OutlivesTheTier) {
  auto tier = shared_tier();
  const auto view = view_of(*tier);
  ASSERT_TRUE(put(*tier, 1, some_bytes(1, 100)));
  tier.reset();
  Bytes out(100);
  EXPECT_EQ(view->get(1, out), Copied::hit);
  EXPECT_EQ(out, some_bytes(1, 100));
}

TEST(MemoryViewTest, MemoryThatIsNotSharedCannotBeMapped) {
  const auto tier = MemoryTier::create(10, 400, {});
  ASSERT_TRUE(tier);
  EXPECT_EQ((*tier)->memory(), -1);
  EXPECT_FALSE(MemoryView::map((*tier)->memory(), 10, kPlan));
}

TEST(MemoryViewTest, RefusesOtherMemory) {
  const auto tier = shared_tier();
  const auto other_plan = MemoryView::map(tier->memory(), 10, Digest{17, 5});
  ASSERT_FALSE(other_plan);
  EXPECT_NE(other_plan.error().message.find("another plan"), std::string::npos);
  EXPECT_FALSE(MemoryView::map(tier->memory(), 11, kPlan));

  // The same, cut off behind the header.
  const int cut = ::memfd_create("test", MFD_CLOEXEC);
  Bytes header(memory_layout::kHeaderBytes);
  ASSERT_EQ(::pread(tier->memory(), header.data(), header.size(), 0),
            static_cast<ssize_t>(header.size()));
  ASSERT_EQ(::pwrite(cut, header.data(), header.size(), 0), static_cast<ssize_t>(header.size()));
  const auto cut_off = MemoryView::map(cut, 10, kPlan);
  ASSERT_FALSE(cut_off);
  EXPECT_NE(cut_off.error().message.find("smaller than its header"), std::string::npos);
  ::close(cut);

  const int zeros = ::memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(zeros, 1 << 20), 0);
  EXPECT_FALSE(MemoryView::map(zeros, 10, kPlan));
  ::close(zeros);
}

// An entry may say anything: nothing outside the arena is read.
TEST(MemoryViewTest, AnEntryThatLeavesTheArenaIsAMiss) {
  const auto tier = shared_tier();
  const auto view = view_of(*tier);
  ASSERT_TRUE(put(*tier, 1, some_bytes(1, 100)));
  const auto layout = memory_layout::layout_of(10, 10);
  for (const uint64_t offset : {uint64_t{301}, uint64_t{1} << 40, UINT64_MAX - 50}) {
    ASSERT_EQ(::pwrite(tier->memory(), &offset, sizeof offset,
                       static_cast<off_t>(layout.entries + offsetof(memory_layout::Entry, offset))),
              static_cast<ssize_t>(sizeof offset));
    Bytes out(100);
    EXPECT_EQ(view->get(1, out), Copied::miss) << offset;
  }
  const uint32_t place = 11;  // there are entries for ten
  ASSERT_EQ(::pwrite(tier->memory(), &place, sizeof place,
                     static_cast<off_t>(layout.places + sizeof place)),
            static_cast<ssize_t>(sizeof place));
  Bytes out(100);
  EXPECT_EQ(view->get(1, out), Copied::miss);
}

// The owner drops and rewrites, also with other samples in the same room, while others read: what
// they get is what was put, whole and of the right sample.
TEST(MemoryViewTest, NeverGivesWrongBytesWhileTheOwnerWrites) {
  constexpr uint64_t kSamples = 4;
  constexpr size_t kSize = 5000;
  const std::vector<ArenaPlace> places{{0, 0, kSize}};
  const auto tier = MemoryTier::create(kSamples, 2 * kSize, places, kPlan);  // one guest at a time
  ASSERT_TRUE(tier);
  const auto view = MemoryView::map((*tier)->memory(), kSamples, kPlan);
  ASSERT_TRUE(view);
  std::vector<Bytes> contents;
  for (uint64_t i = 0; i < 2 * kSamples; ++i) contents.push_back(some_bytes(i, kSize));
  std::atomic<bool> done = false;
  std::atomic<uint64_t> wrong = 0;
  std::atomic<uint64_t> hits = 0;
  std::vector<std::thread> readers;
  for (uint64_t t = 0; t < 2; ++t) {
    readers.emplace_back([&, t] {
      Bytes out(kSize);
      for (uint64_t step = t; !done; ++step) {
        const uint64_t sample = step % kSamples;
        const Copied copied = (*view)->get(sample, out);
        if (copied == Copied::miss) continue;
        ++hits;
        if (copied == Copied::corrupt ||
            (out != contents[sample] && out != contents[kSamples + sample]))
          ++wrong;
      }
    });
  }
  for (uint64_t step = 0; step < 3000 || hits < 100; ++step) {
    const uint64_t sample = step % 3 == 0 ? 0 : mix64(step + 1) % kSamples;
    (*tier)->drop(sample);
    if (sample != 0)
      for (uint64_t other = 1; other < kSamples; ++other) (*tier)->drop(other);
    EXPECT_TRUE(put(**tier, sample, contents[sample + step % 2 * kSamples]));
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(hits, 0u);
}

}  // namespace
}  // namespace foreload
