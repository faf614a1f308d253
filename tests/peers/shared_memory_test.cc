// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include <gtest/gtest.h>

#include "child.h"
#include "patience.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;

std::string new_job() {
  static std::atomic<int> count = 0;
  return "test job " + std::to_string(::getpid()) + " " + std::to_string(++count);
}

int memory_with(const std::string& text) {
  const int fd = ::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  EXPECT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return fd;
}

std::string mapped_text(int fd) {
  struct stat about{};
  ::fstat(fd, &about);
  const auto size = static_cast<size_t>(about.st_size);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return "";
  std::string text(static_cast<const char*>(memory), size);
  ::munmap(memory, size);
  return text;
}

std::unique_ptr<SharedMemory> opened(const std::string& job, uint32_t rank) {
  auto memory = SharedMemory::open(job, rank);
  EXPECT_TRUE(memory) << memory.error().message;
  return memory ? std::move(*memory) : nullptr;
}

TEST(SharedMemory, PublishedMemoryIsFetched) {
  const std::string job = new_job();
  const auto owner = opened(job, 0);
  const auto reader = opened(job, 1);
  const int memory = memory_with("some bytes");
  ASSERT_TRUE(owner->publish(memory));
  const auto fetched = reader->fetch(0, kPatience);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(mapped_text(fetched->get()), "some bytes");
  // The same memory, not a copy.
  EXPECT_EQ(::pwrite(memory, "other", 5, 0), 5);
  EXPECT_EQ(mapped_text(fetched->get()), "otherbytes");
  ::close(memory);
}

TEST(SharedMemory, FetchWaitsForPublish) {
  const std::string job = new_job();
  const auto owner = opened(job, 0);
  const auto reader = opened(job, 1);
  std::jthread late([&] {
    const int memory = memory_with("late");
    EXPECT_TRUE(owner->publish(memory));
    ::close(memory);
  });
  const auto fetched = reader->fetch(0, kPatience);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(mapped_text(fetched->get()), "late");
}

TEST(SharedMemory, ReadersCannotWriteAndNobodyCanResize) {
  const std::string job = new_job();
  const auto owner = opened(job, 0);
  const auto reader = opened(job, 1);
  const int memory = memory_with("bytes");
  ASSERT_TRUE(owner->publish(memory));
  const auto fetched = reader->fetch(0, kPatience);
  ASSERT_TRUE(fetched);
  EXPECT_LT(::write(fetched->get(), "x", 1), 0);
  EXPECT_EQ(::mmap(nullptr, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fetched->get(), 0), MAP_FAILED);
  EXPECT_NE(::ftruncate(memory, 1), 0);
  EXPECT_NE(::ftruncate(memory, 100), 0);
  ::close(memory);
}

TEST(SharedMemory, SecondPublishIsRefused) {
  const auto owner = opened(new_job(), 0);
  const int memory = memory_with("a");
  EXPECT_TRUE(owner->publish(memory));
  EXPECT_FALSE(owner->publish(memory));
  ::close(memory);
}

TEST(SharedMemory, OnlyMemoryThatCanBeSealed) {
  const auto owner = opened(new_job(), 0);
  const int unsealable = ::memfd_create("test", MFD_CLOEXEC);
  EXPECT_FALSE(owner->publish(unsealable));
  EXPECT_FALSE(owner->publish(-1));
  ::close(unsealable);
}

TEST(SharedMemory, OneProcessARank) {
  const std::string job = new_job();
  const auto first = opened(job, 0);
  const auto second = SharedMemory::open(job, 0);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::invalid);
}

// A rank whose loop was done is not one that was lost (tests/loader kills one).
TEST(SharedMemory, WhoLeavesInOrderSaysSo) {
  const std::string job = new_job();
  auto owner = opened(job, 0);
  std::promise<bool> gone;
  auto left =
      SharedMemory::open(job, 1, [&gone](uint32_t, bool in_order) { gone.set_value(in_order); });
  ASSERT_TRUE(left) << left.error().message;
  ASSERT_TRUE((*left)->watch(0, kPatience));
  owner.reset();
  auto in_order = gone.get_future();
  ASSERT_EQ(in_order.wait_for(kPatience), std::future_status::ready);
  EXPECT_TRUE(in_order.get());
}

// A rank that was not accepted yet when another one ended took that for a death.
TEST(SharedMemory, WhoConnectsAtTheEndIsToldTheSame) {
  for (int round = 0; round < 300; ++round) {
    const std::string job = new_job();
    auto owner = opened(job, 0);
    std::promise<bool> gone;
    auto watcher =
        SharedMemory::open(job, 1, [&gone](uint32_t, bool in_order) { gone.set_value(in_order); });
    ASSERT_TRUE(watcher);
    std::thread ending([&owner] { owner.reset(); });
    const auto watched = (*watcher)->watch(0, milliseconds(20));
    ending.join();
    if (!watched) continue;  // it had ended before
    auto in_order = gone.get_future();
    ASSERT_EQ(in_order.wait_for(kPatience), std::future_status::ready);
    EXPECT_TRUE(in_order.get()) << round;
  }
}

// Who finds that it cannot reach a rank any more may ask before the watch has told it.
TEST(SharedMemory, WhoHasLeftIsKnownAtOnce) {
  for (int round = 0; round < 100; ++round) {
    const std::string job = new_job();
    const auto owner = opened(job, 0);
    const auto watcher = opened(job, 1);
    ASSERT_TRUE(watcher->watch(0, kPatience));
    EXPECT_FALSE(watcher->has_left(0));
    owner->leave();
    EXPECT_TRUE(watcher->has_left(0)) << round;
    EXPECT_FALSE(watcher->has_left(2));
  }
}

TEST(SharedMemory, NobodyThereOrNothingPublished) {
  const std::string job = new_job();
  const auto silent = opened(job, 0);
  const auto reader = opened(job, 1);
  for (const uint32_t rank : {0, 7}) {
    const auto fetched = reader->fetch(rank, milliseconds(30));
    ASSERT_FALSE(fetched);
    EXPECT_EQ(fetched.error().kind, ErrorKind::cancelled);
  }
}

TEST(SharedMemoryProcesses, ReadableWhileTheOwnerIsStoppedAndAfterItsDeath) {
  const std::string job = new_job();
  Child owner([&](const Child::Say& say) {
    const auto shared = SharedMemory::open(job, 0);
    const int memory = memory_with("of the child");
    say(shared && (*shared)->publish(memory) ? "published" : "failed");
    sleep_for_ever();
  });
  ASSERT_EQ(owner.hear(), "published");
  const auto reader = opened(job, 1);
  auto fetched = reader->fetch(0, kPatience);
  ASSERT_TRUE(fetched) << fetched.error().message;
  owner.stop();
  EXPECT_EQ(mapped_text(fetched->get()), "of the child");
  // One that comes later waits its time and no longer.
  const auto late = reader->fetch(0, milliseconds(50));
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().kind, ErrorKind::cancelled);
  owner.kill_and_wait();
  EXPECT_EQ(mapped_text(fetched->get()), "of the child");
}

TEST(SharedMemoryProcesses, NothingIsLeftAfterKill) {
  const std::string job = new_job();
  {
    Child owner([&](const Child::Say& say) {
      const auto shared = SharedMemory::open(job, 0);
      say(shared ? "open" : "failed");
      sleep_for_ever();
    });
    ASSERT_EQ(owner.hear(), "open");
    EXPECT_FALSE(SharedMemory::open(job, 0));
  }
  EXPECT_TRUE(SharedMemory::open(job, 0));
}

TEST(SharedMemoryProcesses, OtherUsersGetNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const std::string job = new_job();
  Child stranger([&](const Child::Say& say) {
    if (::setresuid(12345, 12345, 12345) != 0) return say("cannot become another user");
    const auto shared = SharedMemory::open(job, 3);
    const int memory = memory_with("of a stranger");
    if (!shared || !(*shared)->publish(memory)) return say("failed");
    say("published");
    const auto fetched = (*shared)->fetch(0, milliseconds(100));
    say(fetched ? "got it" : fetched.error().kind == ErrorKind::invalid ? "refused" : "nothing");
    sleep_for_ever();
  });
  const auto owner = opened(job, 0);
  const int memory = memory_with("mine");
  ASSERT_TRUE(owner->publish(memory));
  ASSERT_EQ(stranger.hear(), "published");
  EXPECT_EQ(stranger.hear(), "refused");
  const auto fetched = owner->fetch(3, kPatience);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().kind, ErrorKind::invalid);
  ::close(memory);
}

TEST(HostNumber, SameHereAndOtherwiseByName) {
  EXPECT_EQ(host_number(), host_number());
  EXPECT_NE(host_number(), 0);
  EXPECT_EQ(host_number("a"), host_number("a"));
  EXPECT_NE(host_number("a"), host_number("b"));
  EXPECT_NE(host_number("a"), host_number());
}

}  // namespace
}  // namespace foreload
