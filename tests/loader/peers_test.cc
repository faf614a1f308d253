// SPDX-License-Identifier: Apache-2.0
//
// Several ranks as one cache, in one process: real files, real tiers, the in-process transport.
#include <thread>

#include <gtest/gtest.h>

#include "foreload/peers/in_process.h"

#include "loader_fixture.h"

namespace foreload {
namespace {

using std::chrono::seconds;

class PeersTest : public LoaderTest {
 protected:
  struct Seen {
    std::vector<std::vector<uint64_t>> lists;
    LoaderStats stats;
    std::string error;
  };

  LoaderSettings of_rank(uint32_t rank, uint32_t ranks, uint64_t epochs) {
    LoaderSettings with = settings(epochs);
    with.rank = rank;
    with.ranks = ranks;
    JoinSettings join;
    join.timeout = seconds(20);
    join.rendezvous = std::move(*folder_rendezvous(root_ / "meet", job_));
    join.connect = [this, rank](TransportCalls calls) -> Result<std::unique_ptr<Transport>> {
      return network_->join(rank, std::move(calls));
    };
    with.join = std::move(join);
    return with;
  }
  // Each rank in a thread of its own; what it got, checked byte by byte.
  std::vector<Seen> run(uint32_t ranks, uint64_t epochs,
                        const std::function<void(LoaderSettings&)>& change = {},
                        const std::function<bool(uint32_t rank, uint64_t epoch)>& leaves = {}) {
    network_ = std::make_unique<InProcessNetwork>(ranks);
    job_ = "job" + std::to_string(++jobs_);
    std::vector<LoaderSettings> all;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      all.push_back(of_rank(rank, ranks, epochs));
      if (change) change(all.back());
    }
    std::vector<Seen> seen(ranks);
    std::atomic<uint32_t> running = ranks;
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        auto loader = Loader::open(all[rank]);
        if (!loader) seen[rank].error = loader.error().message;
        for (uint64_t e = 0; loader && e < epochs; ++e) {
          if (leaves && leaves(rank, e)) break;
          seen[rank].lists.push_back(epoch(**loader));
        }
        if (loader) seen[rank].stats = (*loader)->stats();
        --running;
        // What a rank holds is there until all are done, unless it leaves.
        while (loader && running > 0 && !(leaves && leaves(rank, epochs)))
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (loader) loader->reset();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return seen;
  }
  void expect_lists(const std::vector<Seen>& seen, uint32_t rank, uint64_t epochs) {
    ASSERT_EQ(seen[rank].error, "");
    ASSERT_EQ(seen[rank].lists.size(), epochs);
    const Sharding sharding{100, static_cast<uint32_t>(seen.size()), Pad::repeat, 0};
    const auto order = std::move(*make_order(OrderKind::torch, 100, 0));
    for (uint64_t e = 0; e < epochs; ++e) {
      std::vector<uint64_t> list(sharding.per_rank());
      read_list(**order->epoch(e), sharding, rank, 0, list);
      EXPECT_EQ(seen[rank].lists[e], list) << "rank " << rank << ", epoch " << e;
    }
  }
  static uint64_t source_bytes(const std::vector<Seen>& seen) {
    uint64_t sum = 0;
    for (const Seen& one : seen) sum += one.stats.engine.source_bytes;
    return sum;
  }

  std::unique_ptr<InProcessNetwork> network_;
  std::string job_;
  int jobs_ = 0;
};

TEST_F(PeersTest, TogetherTheyReadTheSourceOnce) {
  const auto seen = run(4, 3, [this](LoaderSettings& with) { with.memory = total() / 3; });
  for (uint32_t rank = 0; rank < 4; ++rank) expect_lists(seen, rank, 3);
  EXPECT_EQ(source_bytes(seen), total());
  uint64_t served = 0;
  for (const Seen& one : seen) served += one.stats.engine.policy.served;
  EXPECT_GT(served, 0u);
}

TEST_F(PeersTest, DisksAreSharedAndFoundAgain) {
  auto with_disks = [this](LoaderSettings& with) {
    with.disks = {{root_ / ("cache" + std::to_string(with.rank)), total() + (1 << 20)}};
  };
  EXPECT_EQ(source_bytes(run(2, 2, with_disks)), total());
  const auto again = run(2, 2, with_disks);
  for (uint32_t rank = 0; rank < 2; ++rank) expect_lists(again, rank, 2);
  EXPECT_EQ(source_bytes(again), 0u);
}

TEST_F(PeersTest, WhoLeavesEarlyIsReplacedByTheSource) {
  const auto seen = run(
      3, 3, [this](LoaderSettings& with) { with.memory = total() / 2; },
      [](uint32_t rank, uint64_t epoch) { return rank == 1 && epoch >= 1; });
  expect_lists(seen, 0, 3);
  expect_lists(seen, 2, 3);
}

TEST_F(PeersTest, AnotherSeedIsNamed) {
  const auto seen = run(2, 1, [](LoaderSettings& with) { with.seed = with.rank; });
  EXPECT_NE(seen[0].error.find("rank 1 has come to another plan"), std::string::npos)
      << seen[0].error;
}

TEST_F(PeersTest, AMissingRankIsNamed) {
  network_ = std::make_unique<InProcessNetwork>(2);
  job_ = "alone";
  LoaderSettings with = of_rank(0, 2, 1);
  with.join->timeout = std::chrono::milliseconds(200);
  const auto loader = Loader::open(with);
  ASSERT_FALSE(loader);
  EXPECT_NE(loader.error().message.find('1'), std::string::npos) << loader.error().message;
}

}  // namespace
}  // namespace foreload
