// SPDX-License-Identifier: Apache-2.0
//
// Several ranks as one cache, in one process: real files, real tiers, the in-process transport.
#include <thread>

#include <gtest/gtest.h>

#include "foreload/loader/report.h"

#include "../peers/in_process.h"
#include "loader_fixture.h"

namespace foreload {
namespace {

using std::chrono::seconds;

class PeersTest : public LoaderTest {
 protected:
  struct Seen {
    std::vector<std::vector<uint64_t>> lists;
    std::vector<EpochStats> epochs;
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
    with.host = "host " + std::to_string(rank / ranks_per_host_);
    if (narrow_) with.staging = 64 << 10;
    return with;
  }
  // Each rank in a thread of its own; what it got, checked byte by byte.
  std::vector<Seen> run(
      uint32_t ranks, uint64_t epochs, const std::function<void(LoaderSettings&)>& change = {},
      const std::function<bool(uint32_t rank, uint64_t epoch, const Loader&)>& leaves = {}) {
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
          if (leaves && leaves(rank, e, **loader)) break;
          seen[rank].lists.push_back(epoch(**loader));
          seen[rank].epochs.push_back((*loader)->epoch_stats());
        }
        if (loader) seen[rank].stats = (*loader)->stats();
        --running;
        // What a rank holds is there until all are done, unless it leaves.
        while (loader && running > 0 && !(leaves && leaves(rank, epochs, **loader)))
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
    const auto order = std::move(*make_order({"torch"}, 100, 0));
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

  static uint64_t from(const std::vector<Seen>& seen, From where) {
    uint64_t sum = 0;
    for (const Seen& one : seen)
      for (const EpochStats& epoch : one.epochs)
        sum += epoch.from_bytes[static_cast<size_t>(where)];
    return sum;
  }

  std::unique_ptr<InProcessNetwork> network_;
  std::string job_;
  int jobs_ = 0;
  uint32_t ranks_per_host_ = 1;
  bool narrow_ = false;  // only a few batches ahead: an epoch is over before the next one begins
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
      [](uint32_t rank, uint64_t epoch, const Loader&) { return rank == 1 && epoch >= 1; });
  expect_lists(seen, 0, 3);
  expect_lists(seen, 2, 3);
}

// What it kept in memory is adopted: the source is read for it once more, not in every epoch.
TEST_F(PeersTest, SurvivorsAdoptInMemoryWhatADeadRankHeld) {
  narrow_ = true;
  uint64_t largest = 0;
  for (const auto& [sample, bytes] : contents_) largest = std::max<uint64_t>(largest, bytes.size());
  for (const uint32_t per_host : {1u, 4u}) {
    ranks_per_host_ = per_host;
    const auto seen = run(
        4, 6, [this](LoaderSettings& with) { with.memory = total() * 3 / 8; },
        [this, per_host](uint32_t rank, uint64_t epoch, const Loader& loader) {
          if (rank == 2 && epoch == 1 && per_host == 1) network_->kill(2, true);
          if (rank == 2) return epoch >= 1;  // with a goodbye, if it was not killed
          while (epoch >= 2 && loader.stats().engine.dead_peers.empty())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return false;
        });
    uint64_t adopted = 0;
    for (const uint32_t rank : {0u, 1u, 3u}) {
      expect_lists(seen, rank, 6);
      adopted += seen[rank].stats.engine.policy.adopted;
      EXPECT_EQ(seen[rank].stats.engine.dead_peers, std::vector<uint32_t>{2});
    }
    EXPECT_GT(adopted, 0u);
    // It held a quarter.
    EXPECT_LE(source_bytes(seen), total() + total() * 3 / 8 + 4 * largest);
  }
}

TEST_F(PeersTest, RanksOnOneHostReadEachOthersMemory) {
  narrow_ = true;
  ranks_per_host_ = 2;
  const auto seen = run(4, 3, [this](LoaderSettings& with) { with.memory = total() / 4 + 20'000; });
  for (uint32_t rank = 0; rank < 4; ++rank) expect_lists(seen, rank, 3);
  EXPECT_EQ(source_bytes(seen), total());
  EXPECT_GT(from(seen, From::same_host), 0u);
  EXPECT_GT(from(seen, From::peer), 0u);
  for (uint32_t rank = 0; rank < 4; ++rank) {
    uint64_t same_host = 0;
    uint64_t asked = 0;
    for (uint32_t other = 0; other < 4; ++other) {
      const PeerStats& peer = seen[rank].stats.engine.peers[other];
      EXPECT_EQ(peer.same_host, other != rank && other / 2 == rank / 2);
      if (!peer.same_host) {
        EXPECT_EQ(peer.same_host_bytes, 0u);
      }
      same_host += peer.same_host_bytes;
      asked += peer.bytes;
    }
    EXPECT_EQ(same_host, from({seen[rank]}, From::same_host));
    EXPECT_EQ(asked, from({seen[rank]}, From::peer));
  }
}

TEST_F(PeersTest, ReplicasAreFilledFromPeers) {
  narrow_ = true;
  const auto seen = run(2, 6, [this](LoaderSettings& with) { with.memory = total(); });
  for (uint32_t rank = 0; rank < 2; ++rank) expect_lists(seen, rank, 6);
  EXPECT_EQ(source_bytes(seen), total());
  // Each sample passes between the two at most once after the first epoch.
  uint64_t passed = from(seen, From::peer);
  EXPECT_GT(passed, 0u);
  EXPECT_LE(passed, total());
  EXPECT_GT(seen[0].stats.engine.policy.replicas, 0u);
}

// Bytes that change on the way are noticed, whatever they are part of.
TEST_F(PeersTest, WrongBytesOfPeersAreNotDelivered) {
  std::atomic<int> count = 0;
  const auto seen = run(3, 3, [&](LoaderSettings& with) {
    with.memory = total() / 3 + 20'000;
    with.join->connect =
        [&, rank = with.rank](TransportCalls calls) -> Result<std::unique_ptr<Transport>> {
      calls.arrived = [&count, inner = calls.arrived](
                          uint32_t from, std::span<const std::byte> header, PayloadPlace place,
                          uint64_t bytes, bool intact) {
        if (bytes > 0 && place.data != nullptr && count++ % 3 == 0)
          place.data[bytes / 2] ^= std::byte{4};
        inner(from, header, std::move(place), bytes, intact);
      };
      return network_->join(rank, std::move(calls));
    };
  });
  uint64_t corrupt = 0;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    expect_lists(seen, rank, 3);
    for (const PeerStats& peer : seen[rank].stats.engine.peers) corrupt += peer.corrupt;
  }
  EXPECT_GT(corrupt, 0u);
}

TEST_F(PeersTest, StatisticsNameThePeers) {
  ranks_per_host_ = 2;
  const auto seen = run(4, 2, [this](LoaderSettings& with) { with.memory = total() / 2; });
  const std::string text = to_json(seen[0].stats);
  for (const char* words : {"\"same_host_bytes\"", "\"wait_seconds\"", "\"served_bytes\"",
                            "\"given_up\"", "\"adopted_samples\":0", "\"dead_peers\":[]"})
    EXPECT_NE(text.find(words), std::string::npos) << words << " in " << text;
  EXPECT_NE(to_json(seen[0].epochs[0]).find("\"same_host_bytes\""), std::string::npos);
}

TEST_F(PeersTest, AnotherSeedIsNamed) {
  const auto seen = run(2, 1, [](LoaderSettings& with) { with.seed = with.rank; });
  EXPECT_NE(seen[0].error.find("rank 1 computed another plan"), std::string::npos) << seen[0].error;
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
