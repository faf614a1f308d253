// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_queues.h"

#include <string>
#include <thread>

#include <gtest/gtest.h>

namespace foreload::disk_cache {
namespace {

constexpr uint64_t kBytes = 1 << 16;

void push(GetQueue& queue, Traffic traffic, uint64_t first, uint64_t count) {
  static std::vector<std::byte> memory(kBytes);
  for (uint64_t ticket = first; ticket < first + count; ++ticket) {
    Get get{ticket, {}, kBytes, 0, memory, nullptr};
    queue.push(std::span(&get, 1), ticket, traffic);
  }
}

TEST(GetQueueTest, WhatIsCancelledComesNext) {
  GetQueue queue;
  push(queue, Traffic::training, 1, 5);
  queue.hasten(4);
  queue.hasten(99);
  std::string order;
  while (const auto get = queue.try_pop()) order += std::to_string(get->ticket);
  EXPECT_EQ(order, "41235");
}

TEST(GetQueueTest, TheWriterGetsItsTurnAmongGets) {
  GetQueue queue;
  queue.wait_for_turn(Traffic::fill, kBytes);  // at once: nothing waits
  push(queue, Traffic::training, 1, 1000);
  std::thread writer([&] { queue.wait_for_turn(Traffic::fill, 4 * kBytes); });
  uint64_t taken = 0;
  while (queue.try_pop()) ++taken;
  writer.join();
  EXPECT_EQ(taken, 1000u) << "a turn is not a get";
}

TEST(GetQueueTest, AStopEndsEveryWait) {
  GetQueue queue;
  push(queue, Traffic::training, 1, 2);
  std::thread writer([&] { queue.wait_for_turn(Traffic::fill, kBytes); });
  queue.stop();
  writer.join();
  EXPECT_FALSE(queue.pop());
  EXPECT_EQ(queue.drain().size(), 2u);
}

}  // namespace
}  // namespace foreload::disk_cache
