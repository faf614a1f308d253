// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory_view.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"
#include "foreload/tiers/memory_copies.h"

#include "borrower.h"

namespace foreload {
namespace {

std::shared_ptr<MemoryCopies> shared_copies(uint64_t budget) {
  auto copies = MemoryCopies::create({budget, true});
  EXPECT_TRUE(copies) << copies.error().message;
  return copies ? *copies : nullptr;
}

std::shared_ptr<const MemoryView> view_of(const MemoryCopies& copies) {
  auto view = MemoryView::map(copies.memory());
  EXPECT_TRUE(view) << view.error().message;
  return view ? *view : nullptr;
}

bool put(MemoryCopies& copies, const CopyKey& key, size_t size) {
  const Bytes bytes = bytes_of(key, size);
  return copies.put(key, bytes, checksum64(bytes), 1);
}

// `corrupt` also where a hit has other bytes than were put.
Copied get(const MemoryView& view, const CopyKey& key, size_t size) {
  Bytes out(size);
  const Copied copied = view.get(key, size, out);
  return copied == Copied::hit && out != bytes_of(key, size) ? Copied::corrupt : copied;
}

TEST(MemoryViewTest, SeesWhatIsPutAndDropped) {
  const auto copies = shared_copies(1 << 20);
  const auto view = view_of(*copies);
  for (const size_t size : {0u, 1u, 100u, 300'000u}) {
    const CopyKey key = key_of(size, 7);
    EXPECT_EQ(get(*view, key, size), Copied::miss);
    ASSERT_TRUE(put(*copies, key, size));
    EXPECT_EQ(get(*view, key, size), Copied::hit);
    EXPECT_EQ(get(*view, key, size + 1), Copied::miss);
    EXPECT_EQ(get(*view, key_of(size), size), Copied::miss) << "another form";
    copies->drop(key);
    EXPECT_EQ(get(*view, key, size), Copied::miss);
  }
}

// Copies in many pieces, in chains that are long for a table this small.
TEST(MemoryViewTest, NeverTakesAnotherCopyForTheOneItWants) {
  const auto copies = shared_copies(1000);
  const auto view = view_of(*copies);
  ASSERT_TRUE(put(*copies, key_of(6), 1000));
  copies->drop(key_of(6));
  ASSERT_TRUE(put(*copies, key_of(7), 1000));  // in the room and entry of 6
  EXPECT_EQ(get(*view, key_of(6), 1000), Copied::miss);
  EXPECT_EQ(get(*view, key_of(7), 1000), Copied::hit);
}

TEST(MemoryViewTest, MemoryThatIsNotSharedCannotBeMapped) {
  const auto copies = MemoryCopies::create({1000});
  ASSERT_TRUE(copies);
  EXPECT_EQ((*copies)->memory(), -1);
  EXPECT_FALSE(MemoryView::map((*copies)->memory()));
}

TEST(MemoryViewTest, SeesCopiesInPieces) {
  const auto copies = shared_copies(4 << 20);
  const auto view = view_of(*copies);
  uint64_t count = 0;
  while (put(*copies, key_of(count), 600)) ++count;
  for (uint64_t i = 0; i < count; i += 2) copies->drop(key_of(i));
  ASSERT_TRUE(put(*copies, key_of(count), 1 << 20));
  EXPECT_GT(copies->runs(key_of(count)), 1000u);
  EXPECT_EQ(get(*view, key_of(count), 1 << 20), Copied::hit);
  for (uint64_t i = 0; i < count; ++i)
    ASSERT_EQ(get(*view, key_of(i), 600), i % 2 == 0 ? Copied::miss : Copied::hit) << i;
}

TEST(MemoryViewTest, ChangedBytesAreCorrupt) {
  const auto copies = shared_copies(1 << 20);
  const auto view = view_of(*copies);
  ASSERT_TRUE(put(*copies, key_of(1), 100));
  copies->poke(key_of(1), 99) ^= std::byte{128};
  EXPECT_EQ(get(*view, key_of(1), 100), Copied::corrupt);
}

TEST(MemoryViewTest, OutlivesTheOwner) {
  auto copies = shared_copies(1 << 20);
  const auto view = view_of(*copies);
  ASSERT_TRUE(put(*copies, key_of(1), 100));
  copies.reset();
  EXPECT_EQ(get(*view, key_of(1), 100), Copied::hit);
}

TEST(MemoryViewTest, RefusesOtherMemory) {
  const auto own = MemoryCopies::create({1 << 20});
  ASSERT_TRUE(own);
  EXPECT_EQ((*own)->memory(), -1);
  EXPECT_FALSE(MemoryView::map(-1));

  // The same, cut off behind the header.
  const auto copies = shared_copies(1 << 20);
  const int cut = ::memfd_create("test", MFD_CLOEXEC);
  Bytes header(memory_layout::kHeaderBytes);
  ASSERT_EQ(::pread(copies->memory(), header.data(), header.size(), 0),
            static_cast<ssize_t>(header.size()));
  ASSERT_EQ(::pwrite(cut, header.data(), header.size(), 0), static_cast<ssize_t>(header.size()));
  const auto cut_off = MemoryView::map(cut);
  ASSERT_FALSE(cut_off);
  EXPECT_NE(cut_off.error().message.find("smaller than its header"), std::string::npos);
  ::close(cut);

  const int zeros = ::memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(zeros, 1 << 20), 0);
  EXPECT_FALSE(MemoryView::map(zeros));
  ::close(zeros);
}

// An entry may say anything: nothing outside the arena is read.
TEST(MemoryViewTest, AnEntryThatLeavesTheArenaIsAMiss) {
  const auto copies = shared_copies(1 << 20);
  const auto view = view_of(*copies);
  ASSERT_TRUE(put(*copies, key_of(1), 100));
  memory_layout::Header header;
  ASSERT_GT(::pread(copies->memory(), &header, sizeof header, 0), 0);
  const auto layout = memory_layout::layout_of(header.buckets, header.entries);
  const auto end = static_cast<uint32_t>(header.arena_bytes / header.unit);
  for (const memory_layout::Run run :
       {memory_layout::Run{end, 2}, {UINT32_MAX, 2}, {0, UINT32_MAX}, {0, 1}, {0, 0}}) {
    const uint64_t packed = memory_layout::packed(run);
    ASSERT_GT(::pwrite(copies->memory(), &packed, sizeof packed,
                       static_cast<off_t>(layout.entries + offsetof(memory_layout::Entry, run))),
              0);
    EXPECT_EQ(get(*view, key_of(1), 100), Copied::miss) << run.first << " " << run.count;
  }
}

// The owner drops and rewrites, also other copies in the same room, while others read: what they
// get is what was put, whole and of the right key.
class MemoryViewRace : public testing::Test {
 protected:
  static constexpr uint64_t kKeys = 12;
  static size_t size_of(uint64_t number) { return 3000 + number * 500; }
  // Until it is told to stop.
  static void churn(MemoryCopies& copies, const std::atomic<bool>& stop) {
    for (uint64_t step = 0; !stop; ++step) {
      copies.drop(key_of(mix64(step + 1) % kKeys));
      const uint64_t number = mix64(~step) % kKeys;
      put(copies, key_of(number), size_of(number));
    }
  }
  // Reads until it has so many hits; false if one was wrong.
  static bool read(const MemoryView& view, uint64_t hits, uint64_t seed) {
    for (uint64_t step = seed; hits > 0; ++step) {
      const Copied copied = get(view, key_of(step % kKeys), size_of(step % kKeys));
      if (copied == Copied::corrupt) return false;
      if (copied == Copied::hit) --hits;
    }
    return true;
  }
};

TEST_F(MemoryViewRace, NeverGivesWrongBytesWhileTheOwnerWrites) {
  const auto copies = shared_copies(20'000);  // about four of them
  const auto view = view_of(*copies);
  std::atomic<bool> stop = false;
  std::thread owner([&] { churn(*copies, stop); });
  std::atomic<bool> right = true;
  {
    std::vector<std::jthread> readers;
    for (uint64_t t = 0; t < 2; ++t)
      readers.emplace_back([&, t] {
        if (!read(*view, 1000, t)) right = false;
      });
  }
  stop = true;
  owner.join();
  EXPECT_TRUE(right);
}

// From another process, which is killed while it reads: the owner does not notice.
TEST_F(MemoryViewRace, AReaderInAnotherProcessMayBeKilled) {
  const auto copies = shared_copies(20'000);
  int told[2];
  ASSERT_EQ(::pipe(told), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto view = MemoryView::map(copies->memory());
    const char right = view && read(**view, 300, 0) ? 'y' : 'n';
    if (::write(told[1], &right, 1) != 1) ::_exit(1);
    read(**view, UINT64_MAX, 0);
    ::_exit(0);
  }
  std::atomic<bool> stop = false;
  std::thread owner([&] { churn(*copies, stop); });
  char right = 'n';
  EXPECT_EQ(::read(told[0], &right, 1), 1);
  EXPECT_EQ(right, 'y');
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  stop = true;
  owner.join();
  ::close(told[0]);
  ::close(told[1]);
  for (uint64_t i = 0; i < kKeys; ++i) copies->drop(key_of(i));
  EXPECT_EQ(copies->payload(), 0u);
  EXPECT_TRUE(put(*copies, key_of(1), 19'000)) << "no reader was forgotten";
}

// The owner is killed in the middle of everything: who has it mapped reads on, right bytes alone.
TEST_F(MemoryViewRace, TheOwnerMayBeKilled) {
  for (uint64_t round = 0; round < 5; ++round) {
    const auto copies = shared_copies(20'000);
    const auto view = view_of(*copies);
    const pid_t child = ::fork();
    if (child == 0) churn(*copies, std::atomic<bool>(false));
    EXPECT_TRUE(read(*view, 50 + mix64(round) % 50, 0));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (uint64_t i = 0; i < kKeys; ++i)
      EXPECT_NE(get(*view, key_of(i), size_of(i)), Copied::corrupt);
  }
}

}  // namespace
}  // namespace foreload
