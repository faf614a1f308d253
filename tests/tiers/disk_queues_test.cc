// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk_queues.h"

#include <string>

#include <gtest/gtest.h>

namespace foreload::disk_cache {
namespace {

void push(ReadQueue& queue, bool for_peer, int count) {
  for (int i = 0; i < count; ++i) {
    QueuedRead read;
    read.read.for_peer = for_peer;
    queue.push(std::move(read));
  }
}

// t: for the training loop, p: for peers.
std::string order(ReadQueue& queue) {
  std::string letters;
  while (const auto read = queue.try_pop()) letters += read->read.for_peer ? 'p' : 't';
  return letters;
}

TEST(ReadQueueTest, TheLoopGoesFirstButPeersGetTheirTurn) {
  ReadQueue queue;
  push(queue, true, 3);
  push(queue, false, 8);
  EXPECT_EQ(order(queue), "tttptttpttp");
}

TEST(ReadQueueTest, WhoeverIsAloneIsServedAtOnce) {
  ReadQueue queue;
  push(queue, true, 2);
  EXPECT_EQ(order(queue), "pp");
  push(queue, false, 6);
  EXPECT_EQ(order(queue), "tttttt");
  push(queue, true, 1);
  push(queue, false, 2);
  EXPECT_EQ(order(queue), "ttp") << "nobody waited before";
}

}  // namespace
}  // namespace foreload::disk_cache
