// SPDX-License-Identifier: Apache-2.0
//
// Processes of one host that read each other's memory tiers, with the owner running, stopped and
// dead.
#include "foreload/loader/neighbours.h"

#include <unistd.h>

#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "foreload/base/hash.h"
#include "foreload/tiers/memory_copies.h"

#include "../peers/child.h"
#include "../peers/patience.h"
#include "../temporary_folder.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;

std::vector<std::byte> bytes_of(uint64_t sample) {
  return std::vector<std::byte>(1000 + sample, static_cast<std::byte>(sample));
}

CopyKey neighbours_key(uint64_t sample) {
  return {{sample, sample + 1}, 0};
}

std::shared_ptr<MemoryCopies> memory_with(uint64_t first, uint64_t last) {
  auto copies = MemoryCopies::create({1 << 20, true});
  for (uint64_t sample = first; copies && sample < last; ++sample) {
    const auto bytes = bytes_of(sample);
    (*copies)->put(neighbours_key(sample), bytes, checksum64(bytes), 0);
  }
  return copies ? *copies : nullptr;
}

Neighbours two_neighbours(uint32_t own) {
  static std::atomic<int> count = 0;
  return {{1 - own}, {1 - own}, "neighbours " + std::to_string(++count)};
}

bool reads(const MemoryView& view, uint64_t sample) {
  std::vector<std::byte> out(bytes_of(sample).size());
  return view.get(neighbours_key(sample), out.size(), out) == Copied::hit &&
         out == bytes_of(sample);
}

// What rank 1 does in these tests, as a process.
auto publish_and_sleep(const Neighbours& neighbours) {
  return [&neighbours](const Child::Say& say) {
    const auto copies = memory_with(0, 20);
    const SharedTiers shared(neighbours, 1, copies->memory());
    say(shared.warnings().empty() ? "published" : shared.warnings().front());
    sleep_for_ever();
  };
}

TEST(NeighboursProcesses, MemoryIsReadWhileItsOwnerIsStoppedAndAfterItsDeath) {
  Neighbours neighbours = two_neighbours(0);
  neighbours.job += " of " + std::to_string(::getpid());
  Child owner(publish_and_sleep(neighbours));
  ASSERT_EQ(owner.hear(), "published");
  const auto own = memory_with(0, 0);
  SharedTiers shared(neighbours, 0, own->memory());
  const auto views = shared.fetch(neighbours, 2, kPatience);
  ASSERT_TRUE(views[1]) << shared.warnings().front();
  EXPECT_FALSE(views[0]);
  for (const bool stopped : {false, true}) {
    if (stopped) owner.stop();
    for (uint64_t sample = 0; sample < 20; ++sample) EXPECT_TRUE(reads(*views[1], sample));
    EXPECT_FALSE(reads(*views[1], 20));
  }
  owner.kill_and_wait();
  for (uint64_t sample = 0; sample < 20; ++sample) EXPECT_TRUE(reads(*views[1], sample));
}

// Nothing is owed and nothing is sent: the end of its socket tells.
TEST(NeighboursProcesses, ADeadNeighbourIsMissedAtOnceAndAStoppedOneIsNot) {
  Neighbours neighbours = two_neighbours(0);
  neighbours.job += " of " + std::to_string(::getpid());
  for (const bool has_memory : {true, false}) {
    if (!has_memory) neighbours.sharing.clear();
    Child owner(publish_and_sleep(neighbours));
    ASSERT_EQ(owner.hear(), "published");
    const auto own = memory_with(0, 0);
    std::promise<std::pair<uint32_t, bool>> gone;
    auto missed = gone.get_future();
    SharedTiers shared(neighbours, 0, own->memory(),
                       [&gone](uint32_t rank, bool in_order) { gone.set_value({rank, in_order}); });
    shared.watch(neighbours, kPatience);
    EXPECT_EQ(shared.fetch(neighbours, 2, kPatience)[1] != nullptr, has_memory);
    owner.stop();
    EXPECT_EQ(missed.wait_for(milliseconds(50)), std::future_status::timeout);
    owner.kill_and_wait();
    ASSERT_EQ(missed.wait_for(kPatience), std::future_status::ready);
    EXPECT_EQ(missed.get(), std::pair(1u, false));
  }
}

TEST(NeighboursProcesses, NothingIsLeftWhenTheyAreKilled) {
  Neighbours neighbours = two_neighbours(0);
  neighbours.job += " of " + std::to_string(::getpid());
  {
    Child owner(publish_and_sleep(neighbours));
    ASSERT_EQ(owner.hear(), "published");
  }
  const auto own = memory_with(0, 0);
  SharedTiers shared(neighbours, 0, own->memory());
  EXPECT_FALSE(shared.fetch(neighbours, 2, milliseconds(50))[1]);
  EXPECT_EQ(shared.warnings().size(), 1u);
}

TEST(NeighboursTest, OtherMemoryIsNotRead) {
  const Neighbours neighbours = two_neighbours(0);
  const auto copies = std::pair(memory_with(0, 0), memory_with(0, 20));
  const char other[] = "not a memory cache";
  ASSERT_EQ(::pwrite(copies.second->memory(), other, sizeof other, 0), ssize_t{sizeof other});
  SharedTiers first(neighbours, 0, copies.first->memory());
  const SharedTiers second(neighbours, 1, copies.second->memory());
  EXPECT_FALSE(first.fetch(neighbours, 2, kPatience)[1]);
  ASSERT_EQ(first.warnings().size(), 1u);
  EXPECT_NE(first.warnings()[0].find("not a memory cache"), std::string::npos);
}

TEST(NeighboursTest, AreThoseWithTheSameHostName) {
  const TemporaryFolder folder;
  std::vector<Neighbours> found(4);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      JoinSettings join;
      join.timeout = kPatience;
      join.rendezvous = std::move(*folder_rendezvous(folder.path(), "job"));
      auto neighbours = find_neighbours(join, rank, 4, rank == 2 ? "b" : "a", rank != 3);
      ASSERT_TRUE(neighbours) << neighbours.error().message;
      found[rank] = std::move(*neighbours);
    });
  }
  for (std::thread& thread : threads) thread.join();
  using Ranks = std::vector<uint32_t>;
  EXPECT_EQ(found[0].ranks, (Ranks{1, 3}));
  EXPECT_EQ(found[0].sharing, (Ranks{1}));
  EXPECT_EQ(found[1].ranks, (Ranks{0, 3}));
  EXPECT_EQ(found[2].ranks, Ranks{});
  EXPECT_EQ(found[3].sharing, (Ranks{0, 1}));
  EXPECT_NE(found[0].job, "");
  EXPECT_EQ(found[0].job, found[3].job);
}

}  // namespace
}  // namespace foreload
