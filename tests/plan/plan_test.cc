// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/plan.h"

#include <set>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "foreload/dataset/index.h"
#include "foreload/plan/summary.h"

namespace foreload {
namespace {

Job job_of(uint32_t ranks, uint64_t epochs, uint64_t memory) {
  Job job;
  job.ranks = ranks;
  job.epochs = epochs;
  job.tiers = {{{"memory", memory, 1}}};
  return job;
}

Plan plan_of(const Job& job, Sizes sizes) {
  return std::move(*Plan::make(job, std::move(sizes)));
}

// Source bytes by replaying every read of every rank against the placement: a simulation that
// shares nothing with traffic.cc but the placement.
uint64_t replayed_source_bytes(const Plan& plan) {
  std::set<uint64_t> cached;
  for (const Held& held : plan.job().held) {
    if (plan.placement().owner(held.sample).rank == held.rank) cached.insert(held.sample);
  }
  uint64_t bytes = 0;
  for (uint64_t e = 0; e < plan.epochs(); ++e) {
    const auto epoch = std::move(*plan.order().epoch(plan.job().first_epoch + e));
    const Sharding sharding = plan.sharding(plan.job().first_epoch + e);
    std::vector<uint64_t> list(sharding.total());
    read_global_list(*epoch, sharding, 0, list);
    for (const uint64_t sample : list) {
      if (cached.contains(sample)) continue;
      bytes += plan.sizes()[sample];
      if (plan.placement().owner(sample).rank != kNoOwner) cached.insert(sample);
    }
  }
  return bytes;
}

struct Case {
  const char* name;
  uint64_t samples;
  uint32_t ranks;
  uint64_t epochs;
  double capacity;  // as a share of the data set, in all
  Pad pad = Pad::repeat;
  uint64_t start = 0;
  PlacementKind placement = PlacementKind::cover;
  uint64_t held = 0;  // samples held by rank 0
};

class TrafficOf : public testing::TestWithParam<Case> {};

TEST_P(TrafficOf, EqualsAReplayAndStaysWithinTheBoundsSlack) {
  const Case& c = GetParam();
  auto sizes = std::move(*Sizes::normal(c.samples, 1000, 300, 1));
  Job job =
      job_of(c.ranks, c.epochs,
             static_cast<uint64_t>(c.capacity * static_cast<double>(sizes.total())) / c.ranks);
  job.pad = c.pad;
  job.start = c.start;
  job.placement = c.placement;
  for (uint64_t sample = 0; sample < c.held; ++sample) job.held.push_back({sample, 0, 0});
  const Plan plan = plan_of(job, sizes);
  const PlannedTraffic& traffic = plan.traffic();
  EXPECT_EQ(traffic.source_bytes(), replayed_source_bytes(plan));
  EXPECT_GE(traffic.source_bytes(), traffic.source_bytes_lower_bound);
  const uint64_t padding = c.pad == Pad::repeat ? c.ranks * sizes.largest() : 0;
  const uint64_t slack = c.epochs * (c.ranks * sizes.largest() + padding);
  if (c.placement == PlacementKind::cover) {
    EXPECT_LE(traffic.source_bytes(), traffic.source_bytes_lower_bound + slack);
  }

  uint64_t reads = traffic.source_first.reads + traffic.source_later.reads;
  for (const auto* volumes : {&traffic.local, &traffic.peer})
    for (const Volume& volume : *volumes) reads += volume.reads;
  uint64_t expected = 0;
  for (uint64_t e = 0; e < c.epochs; ++e) expected += plan.sharding(e).total();
  EXPECT_EQ(reads, expected);
  EXPECT_EQ(traffic.read.reads, expected);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, TrafficOf,
    testing::Values(Case{"no_cache", 1000, 4, 5, 0}, Case{"quarter", 1000, 4, 5, 0.25},
                    Case{"half", 1000, 4, 5, 0.5}, Case{"all", 1000, 4, 5, 1},
                    Case{"twice", 1000, 4, 5, 2}, Case{"one_epoch", 1000, 4, 1, 0.5},
                    Case{"one_rank", 1000, 1, 4, 0.5}, Case{"padded", 1001, 7, 5, 0.5},
                    Case{"cut", 1001, 7, 5, 0.5, Pad::truncate},
                    Case{"cut_all_fits", 1001, 7, 9, 1.5, Pad::truncate},
                    Case{"resumed", 1000, 4, 5, 0.5, Pad::repeat, 600},
                    Case{"resumed_at_the_end", 1000, 4, 5, 0.5, Pad::repeat, 1000},
                    Case{"more_ranks_than_samples", 3, 16, 5, 0.5}, Case{"one_sample", 1, 1, 5, 1},
                    Case{"one_sample_many_ranks", 1, 9, 5, 20},
                    Case{"published", 1000, 4, 9, 1, Pad::repeat, 0, PlacementKind::independent},
                    Case{"warm", 1000, 4, 5, 0.5, Pad::repeat, 0, PlacementKind::cover, 100},
                    Case{"warm_full", 1000, 4, 5, 4.2, Pad::repeat, 0, PlacementKind::cover, 1000}),
    [](const auto& test) { return test.param.name; });

TEST(SourceLowerBound, IsThePromise) {
  using Bytes = std::vector<uint64_t>;
  const Bytes epochs{100, 100, 90};
  EXPECT_EQ(source_lower_bound(epochs, Bytes{0, 100, 100}, 40), 100u + 60 + 50);
  EXPECT_EQ(source_lower_bound(epochs, Bytes{30, 100, 100}, 95), 70u + 5 + 0);
  EXPECT_EQ(source_lower_bound(epochs, Bytes{100, 100, 100}, 1000), 0u);
  // Resumed: the second epoch cannot find more in the caches than the first one read.
  EXPECT_EQ(source_lower_bound(Bytes{20, 100}, Bytes{0, 20}, 50), 20u + 80);
}

TEST(PlanDigest, IsTheSameForAnyNumberOfThreadsAndDifferentForAnotherJob) {
  const Job job = job_of(4, 5, 30'000);
  const auto sizes = *Sizes::uniform(1000, 100);
  auto digest = [&](const Job& j, const Sizes& s, unsigned threads) {
    return Plan::make(j, s, {.threads = threads})->digest();
  };
  EXPECT_EQ(digest(job, sizes, 1), digest(job, sizes, 3));
  std::vector<Job> others(7, job);
  others[0].seed = 1;
  others[1].ranks = 5;
  others[2].epochs = 6;
  others[3].tiers[0][0].capacity += 100;
  others[4].pad = Pad::truncate;
  others[5].start = 4;
  others[6].batching.batch_size = 65;
  for (const Job& other : others) EXPECT_NE(digest(job, sizes, 1), digest(other, sizes, 1));
  EXPECT_NE(digest(job, sizes, 1), digest(job, *Sizes::uniform(1000, 101), 1));
}

TEST(Plan, TakesAHorizonForAnUnknownNumberOfEpochs) {
  Job job = job_of(4, 1, 30'000);
  job.epochs.reset();
  const Plan plan = plan_of(job, *Sizes::uniform(1000, 100));
  EXPECT_EQ(plan.epochs(), kHorizon);
  EXPECT_NE(plan.digest(),
            plan_of(job_of(4, kHorizon, 30'000), *Sizes::uniform(1000, 100)).digest());
}

TEST(Plan, ExtrapolatesEpochsThatItDoesNotCount) {
  const Job job = job_of(4, 20, 12'500);
  const auto sizes = *Sizes::uniform(1000, 100);
  const Plan whole = plan_of(job, sizes);
  const Plan part = std::move(*Plan::make(job, sizes, {.table_bytes = 8000}));
  EXPECT_EQ(part.traffic().counted_epochs, 8u);
  EXPECT_EQ(part.traffic().source_bytes(), whole.traffic().source_bytes());
  EXPECT_EQ(part.traffic().source_bytes_lower_bound, whole.traffic().source_bytes_lower_bound);
  EXPECT_EQ(part.traffic().read.reads, whole.traffic().read.reads);
}

TEST(Plan, ComputesOwnersWhereTheTableWouldNotFit) {
  const Job job = job_of(4, 5, 12'500);
  const auto sizes = *Sizes::uniform(1000, 100);
  const Plan plan = std::move(*Plan::make(job, sizes, {.table_bytes = 1000}));
  EXPECT_EQ(plan.job().placement, PlacementKind::computed);
  EXPECT_EQ(plan.table(), nullptr);
  EXPECT_EQ(plan.traffic().source_bytes(), plan_of(job, sizes).traffic().source_bytes());
}

TEST(Plan, HandlesABillionSamplesInConstantMemory) {
  Job job = job_of(1024, 10, uint64_t{50} << 30);
  job.order.name = "feistel";
  const Plan plan = plan_of(job, *Sizes::uniform(1'000'000'000, 100'000));
  EXPECT_EQ(plan.job().placement, PlacementKind::computed);
  EXPECT_NEAR(summarise(plan).coverage, 1024.0 * (uint64_t{50} << 30) / 1e14, 1e-6);
  EXPECT_EQ(plan.placement().owner(123'456'789).rank, plan.placement().owner(123'456'789).rank);
}

TEST(Plan, PlansUnknownSizesWithTheMean) {
  const auto sizes = *Sizes::of(std::vector<uint64_t>{100, kUnknownSize, 300});
  EXPECT_EQ(sizes[1], 200u);
  EXPECT_EQ(sizes.unknown(), 1u);
  EXPECT_EQ(plan_of(job_of(1, 2, 1000), sizes).traffic().source_bytes(), 600u);
}

class BadJob : public testing::TestWithParam<std::pair<const char*, void (*)(Job&)>> {};

TEST_P(BadJob, IsRefusedInOneLine) {
  Job job = job_of(4, 5, 1000);
  GetParam().second(job);
  const auto plan = Plan::make(job, *Sizes::uniform(1000, 100));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind, ErrorKind::invalid);
  EXPECT_EQ(plan.error().message.find('\n'), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, BadJob,
    testing::Values(
        std::pair{"no_ranks", +[](Job& job) { job.ranks = 0; }},
        std::pair{"no_epochs", +[](Job& job) { job.epochs = 0; }},
        std::pair{"no_batch", +[](Job& job) { job.batching.batch_size = 0; }},
        std::pair{"late_start", +[](Job& job) { job.start = 1001; }},
        std::pair{"too_many_reads", +[](Job& job) { job.epochs = UINT64_MAX / 999; }},
        std::pair{"too_many_bytes", +[](Job& job) { job.epochs = UINT64_MAX / 99'999; }},
        std::pair{"held_elsewhere", +[](Job& job) { job.held = {{0, 4, 0}}; }},
        std::pair{"given", +[](Job& job) { job.order.name = "given"; }},
        std::pair{"capacity", +[](Job& job) { job.tiers[0][0].capacity = UINT64_MAX; }}),
    [](const auto& test) { return test.param.first; });

TEST(Sizes, RefuseWhatCannotBePlanned) {
  EXPECT_FALSE(Sizes::uniform(0, 1));
  EXPECT_FALSE(Sizes::uniform(UINT64_MAX, 2));
  EXPECT_FALSE(Sizes::of(std::vector<uint64_t>{}));
  EXPECT_FALSE(Sizes::of(std::vector<uint64_t>{kUnknownSize}));
  EXPECT_FALSE(Sizes::of(std::vector<uint64_t>{UINT64_MAX - 1, 2}));
}

TEST(Sizes, DrawANormalDistributionCutAtZero) {
  const auto sizes = *Sizes::normal(100'000, 1000, 100, 3);
  EXPECT_NEAR(static_cast<double>(sizes.total()) / 100'000, 1000, 2);
  EXPECT_EQ(sizes[77], (*Sizes::normal(100'000, 1000, 100, 3))[77]);
  EXPECT_LT(Sizes::normal(1000, 10, 100, 3)->largest(), 1000u);  // no wrap below zero
}

TEST(Summary, HasTheAgreedKeys) {
  const Plan plan = plan_of(job_of(4, 5, 12'500), *Sizes::uniform(1000, 100));
  const auto json = nlohmann::json::parse(to_json(plan, {.plan_seconds = 1.5, .rate = 10}));
  for (const char* key :
       {"samples", "ranks", "epochs", "dataset_bytes", "cache_bytes", "source_bytes",
        "source_bytes_lower_bound", "coverage", "local_read_fraction", "peer_read_fraction",
        "source_read_fraction", "plan_seconds", "peak_rss_bytes", "digest"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["coverage"], 0.5);
  EXPECT_DOUBLE_EQ(json["local_read_fraction"].get<double>() +
                       json["peer_read_fraction"].get<double>() +
                       json["source_read_fraction"].get<double>(),
                   1);
  EXPECT_EQ(json["rate"]["source_first_epoch_bytes_per_second"], 4000);
}

TEST(Summary, NamesWhatPeopleAskFor) {
  const std::string text =
      to_text(plan_of(job_of(4, 5, 12'500), *Sizes::uniform(1000, 100)), {.rate = 10});
  for (const char* word : {"data set", "capacity", "50.0 % of samples", "own memory",
                           "other ranks' memory", "source", "to feed 10 samples/s", "digest"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
}

}  // namespace
}  // namespace foreload
