// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/readers.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "foreload/plan/given_order.h"

namespace foreload {
namespace {

ReaderTable table_of(const char* kind, uint64_t samples, uint32_t ranks, uint32_t epochs,
                     Pad pad = Pad::repeat, uint64_t seed = 0, uint64_t start = 0) {
  const auto order = std::move(*make_order({kind}, samples, seed));
  return std::move(*ReaderTable::build(*order, ranks, pad, {0, epochs, start}, 2));
}

// Counts from the reading lists themselves, without the table.
std::map<std::pair<uint64_t, uint32_t>, uint32_t> counts_from_lists(uint64_t samples,
                                                                    uint32_t ranks, uint32_t epochs,
                                                                    Pad pad, uint64_t start) {
  const auto order = std::move(*make_order({"torch"}, samples, 0));
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> counts;
  for (uint32_t e = 0; e < epochs; ++e) {
    const auto epoch = std::move(*order->epoch(e));
    const Sharding sharding{samples, ranks, pad, e == 0 ? start : 0};
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<uint64_t> list(sharding.per_rank());
      read_list(*epoch, sharding, rank, 0, list);
      for (const uint64_t sample : list) ++counts[{sample, rank}];
    }
  }
  return counts;
}

struct ReadersCase {
  uint64_t samples;
  uint32_t ranks;
  Pad pad;
  uint64_t start;
};

class TallyOf : public testing::TestWithParam<ReadersCase> {};

TEST_P(TallyOf, AgreesWithTheReadingLists) {
  const auto [samples, ranks, pad, start] = GetParam();
  constexpr uint32_t kEpochs = 7;
  const auto table = table_of("torch", samples, ranks, kEpochs, pad, 0, start);
  auto expected = counts_from_lists(samples, ranks, kEpochs, pad, start);
  ReaderTable::Tally tally(table);
  // Walk forward, then backward, so that both ways of fetching cells are used.
  for (uint64_t i = 0; i < 2 * samples; ++i) {
    const uint64_t sample = i < samples ? i : 2 * samples - 1 - i;
    uint64_t reads = 0;
    for (const auto& [rank, count] : tally.of(sample)) {
      EXPECT_EQ(count, (expected[{sample, rank}])) << "sample " << sample << " rank " << rank;
      reads += count;
    }
    uint64_t expected_reads = 0;
    for (uint32_t rank = 0; rank < ranks; ++rank) expected_reads += expected[{sample, rank}];
    EXPECT_EQ(reads, expected_reads);
  }
  for (uint32_t rank = 0; rank < std::min(ranks, 5u); ++rank) {
    const auto counts = access_counts(table, rank);
    for (uint64_t sample = 0; sample < samples; ++sample)
      EXPECT_EQ(counts[sample], (expected[{sample, rank}]));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, TallyOf,
    testing::Values(ReadersCase{1, 1, Pad::repeat, 0}, ReadersCase{1, 7, Pad::repeat, 0},
                    ReadersCase{1, 7, Pad::truncate, 0}, ReadersCase{3, 300, Pad::repeat, 0},
                    ReadersCase{200, 3, Pad::repeat, 0}, ReadersCase{200, 3, Pad::truncate, 0},
                    ReadersCase{200, 3, Pad::repeat, 77}, ReadersCase{200, 3, Pad::truncate, 200},
                    ReadersCase{1000, 255, Pad::repeat, 0}, ReadersCase{1000, 256, Pad::repeat, 0},
                    ReadersCase{10, 70'000, Pad::repeat, 0}));

TEST(ReaderTable, IsTheSameForAnyNumberOfThreads) {
  const auto order = std::move(*make_order({"torch"}, 5000, 3));
  const auto one = std::move(*ReaderTable::build(*order, 7, Pad::repeat, {2, 9, 0}, 1));
  const auto four = std::move(*ReaderTable::build(*order, 7, Pad::repeat, {2, 9, 0}, 4));
  for (uint32_t epoch = 0; epoch < 9; ++epoch) {
    for (uint64_t sample = 0; sample < 5000; ++sample)
      ASSERT_EQ(one.reader(epoch, sample), four.reader(epoch, sample));
  }
  EXPECT_TRUE(std::equal(one.extra_reads().begin(), one.extra_reads().end(),
                         four.extra_reads().begin(), four.extra_reads().end()));
}

TEST(ReaderTable, CanBeCancelled) {
  const auto order = std::move(*make_order({"torch"}, 100, 3));
  const auto table = ReaderTable::build(*order, 7, Pad::repeat, {0, 50, 0}, 1,
                                        [](uint64_t done, uint64_t) { return done < 5; });
  EXPECT_EQ(table.error().kind, ErrorKind::cancelled);
}

TEST(ReaderTable, FailsForEpochsThatNobodyKnows) {
  GivenOrder order(3);
  ASSERT_TRUE(order.give({0, 1, 2}));
  EXPECT_EQ(ReaderTable::build(order, 1, Pad::repeat, {0, 2, 0}, 1).error().kind,
            ErrorKind::invalid);
}

// The number of times a rank reads a sample is Binomial(epochs, 1 / ranks). For ImageNet-1k on 16
// ranks over 90 epochs a rank is expected to read 31,635 samples more than 10 times.
TEST(AccessStatistics, FollowTheBinomialDistribution) {
  const auto table = table_of("torch", 1'281'167, 16, 90);
  double frequent = 0;
  for (const uint32_t rank : {0u, 7u, 15u}) {
    for (const uint32_t count : access_counts(table, rank)) frequent += count > 10 ? 1 : 0;
  }
  EXPECT_NEAR(frequent / 3, 31'635, 0.02 * 31'635);
}

// 4 ranks, 1000 epochs, 10,000 samples: 323 samples are expected above 1.1 x the mean count.
TEST(AccessStatistics, GiveThePublishedTailOnAverage) {
  constexpr int kSeeds = 64;
  double frequent = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const auto table = table_of("torch", 10'000, 4, 1000, Pad::repeat, 1000 * seed);
    for (const uint32_t count : access_counts(table, 1)) frequent += count > 275 ? 1 : 0;
  }
  EXPECT_NEAR(frequent / kSeeds, 323, 0.02 * 323);
}

// If a rank reads a sample ceil((1 + d) E / N) times, some other rank reads it at most
// ceil((N - 1 - d) / (N - 1) * E / N) times.
TEST(AccessCounts, BoundThoseOfTheOtherRanks) {
  for (const uint32_t ranks : {2u, 3u, 5u, 16u}) {
    for (const uint32_t epochs : {1u, 10u, 90u}) {
      // A multiple of the ranks, so that there is no padding.
      const uint64_t samples = 100 * ranks;
      const auto table = table_of("torch", samples, ranks, epochs, Pad::repeat, 11);
      ReaderTable::Tally tally(table);
      for (uint64_t sample = 0; sample < samples; ++sample) {
        const auto counts = tally.of(sample);
        for (const RankCount& mine : counts) {
          const double n = ranks;
          const double mean = epochs / n;
          // The largest d for which the premise holds with this count.
          const double d = mine.count / mean - 1;
          uint32_t least = counts.size() < ranks ? 0 : UINT32_MAX;
          for (const RankCount& other : counts) {
            if (other.rank != mine.rank) least = std::min(least, other.count);
          }
          EXPECT_LE(least, std::ceil((n - 1 - d) / (n - 1) * mean - 1e-9));
        }
      }
    }
  }
}

}  // namespace
}  // namespace foreload
