// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/disk.h"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <tuple>
#include <utility>

#include "disk_fixture.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using Samples = std::vector<uint64_t>;

class DiskTierTest : public DiskOfEveryKind {};
INSTANTIATE_TEST_SUITE_P(Everywhere, DiskTierTest, every_kind_of_disk(), name_of_kind);

class DiskTest : public DiskFixture {};

constexpr size_t kDiskSizes[] = {0, 1, 7, 8, 100, 3952, 3953, 4096, 65536, 1'000'000, 3'000'001};

TEST_P(DiskTierTest, GivesBackWhatWasWritten) {
  TierUser tier(settings_);
  ASSERT_TRUE(tier) << tier.error().message;
  EXPECT_TRUE(tier.found().empty());
  uint64_t sample = 0;
  uint64_t payload = 0;
  for (const size_t size : kDiskSizes) {
    EXPECT_FALSE(tier.holds(sample));
    EXPECT_EQ(tier.write(sample, size), TierEnd::done);
    EXPECT_TRUE(tier.holds(sample));
    payload += size;
    ++sample;
  }
  sample = 0;
  for (const size_t size : kDiskSizes) EXPECT_EQ(tier.read(sample++, size), TierEnd::done);
  EXPECT_EQ(tier->payload(), payload);
  EXPECT_EQ(tier.used(), bytes_on_disk());
  EXPECT_EQ(tier->dead(), std::nullopt);
}

TEST_P(DiskTierTest, FindsWhatAnEarlierRunWrote) {
  {
    TierUser tier(settings_);
    uint64_t sample = 100;
    for (const size_t size : kDiskSizes) ASSERT_EQ(tier.write(sample--, size, 7), TierEnd::done);
  }
  TierUser tier(settings_);
  ASSERT_TRUE(tier) << tier.error().message;
  ASSERT_EQ(tier.found().size(), std::size(kDiskSizes));
  for (size_t i = 0; i < std::size(kDiskSizes); ++i) {
    const FoundSample entry = tier.found()[std::size(kDiskSizes) - 1 - i];
    EXPECT_EQ(entry.sample, 100 - i);
    EXPECT_EQ(entry.version, 7u);
    EXPECT_EQ(entry.size, kDiskSizes[i]);
    EXPECT_EQ(tier.read(entry.sample, entry.size, 7), TierEnd::done);
  }
  EXPECT_EQ(tier.used(), bytes_on_disk());
}

TEST_P(DiskTierTest, ReadsWhileWritesAreQueued) {
  TierUser tier(settings_);
  ASSERT_TRUE(tier) << tier.error().message;
  std::vector<std::pair<uint64_t, std::shared_ptr<Bytes>>> reads;
  constexpr size_t kSize = 50'000;
  for (uint64_t sample = 0; sample < 100; ++sample) {
    tier.start_write(sample, bytes_of(sample, kSize));
    const auto into = std::make_shared<Bytes>(kSize);
    reads.emplace_back(tier.start_read(sample, into, sample % 2 == 0), into);
  }
  for (uint64_t sample = 0; sample < reads.size(); ++sample) {
    EXPECT_EQ(tier.wait(reads[sample].first), TierEnd::done);
    EXPECT_EQ(*reads[sample].second, bytes_of(sample, kSize));
  }
}

TEST_P(DiskTierTest, ManyReadsAtOnce) {
  settings_.budget = uint64_t{64} << 20;
  TierUser tier(settings_);
  ASSERT_TRUE(tier) << tier.error().message;
  for (uint64_t sample = 0; sample < 300; ++sample) {
    ASSERT_EQ(tier.write(sample, 1000 + sample * 300), TierEnd::done);
  }
  std::vector<std::tuple<uint64_t, uint64_t, std::shared_ptr<Bytes>>> reads;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint64_t sample = mix64(i + 1) % 300;
    auto into = std::make_shared<Bytes>(1000 + sample * 300);
    reads.emplace_back(tier.start_read(sample, into, i % 3 == 0), sample, into);
  }
  for (const auto& [id, sample, into] : reads) {
    EXPECT_EQ(tier.wait(id), TierEnd::done);
    EXPECT_EQ(*into, bytes_of(sample, into->size()));
  }
}

TEST_P(DiskTierTest, EverythingIsAnsweredOnceAndNothingAfterTheEnd) {
  for (int round = 0; round < 5; ++round) {
    TierUser tier(settings_);
    ASSERT_TRUE(tier) << tier.error().message;
    std::vector<std::shared_ptr<Bytes>> kept;
    for (uint64_t i = 0; i < 200; ++i) {
      tier.start_write(i, bytes_of(i, 20'000));
      kept.push_back(std::make_shared<Bytes>(20'000));
      tier.start_read(i / 2, kept.back());
    }
    tier.close();
    EXPECT_EQ(tier.answers().size(), 400u);
  }
}

TEST_F(DiskTest, SaysWhatIsNotThere) {
  TierUser tier(settings_);
  ASSERT_EQ(tier.write(5, 100), TierEnd::done);
  EXPECT_EQ(tier.read(4, 100), TierEnd::miss);
  EXPECT_EQ(tier.read(5, 99), TierEnd::miss);
  EXPECT_EQ(tier.read(5, 101), TierEnd::miss);
  EXPECT_EQ(tier.read(5, 100), TierEnd::done);
}

TEST_F(DiskTest, ADroppedSampleIsGone) {
  TierUser tier(settings_);
  ASSERT_EQ(tier.write(5, 100), TierEnd::done);
  tier.drop(5);
  tier.drop(6);
  EXPECT_FALSE(tier.holds(5));
  EXPECT_EQ(tier->payload(), 0u);
  EXPECT_EQ(tier.read(5, 100), TierEnd::miss);
  EXPECT_EQ(tier.write(5, 100), TierEnd::done);
  EXPECT_EQ(tier.read(5, 100), TierEnd::done);
}

TEST_F(DiskTest, ADropAlsoStopsAWriteThatIsUnderWay) {
  TierUser tier(settings_);
  for (uint64_t sample = 0; sample < 50; ++sample) {
    const uint64_t id = tier.start_write(sample, bytes_of(sample, 30'000));
    tier.drop(sample);
    EXPECT_EQ(tier.wait(id), TierEnd::done);
    EXPECT_FALSE(tier.holds(sample));
  }
}

TEST_F(DiskTest, TheSameSampleTwiceIsWrittenOnce) {
  TierUser tier(settings_);
  ASSERT_EQ(tier.write(5, 10'000), TierEnd::done);
  const uint64_t used = tier.used();
  ASSERT_EQ(tier.write(5, 10'000), TierEnd::full);
  EXPECT_EQ(tier.used(), used);
}

TEST_F(DiskTest, EveryVersionIsFoundAgainWhateverIsMissing) {
  {
    TierUser tier(settings_);
    ASSERT_EQ(tier.write(5, 100, 9), TierEnd::done);
    ASSERT_EQ(tier.write(5, 200, 3), TierEnd::done);
  }
  for (int round = 0; round < 2; ++round) {
    TierUser tier(settings_);
    EXPECT_EQ(tier.found().size(), 2u);
    EXPECT_EQ(tier.read(5, 200, 3), TierEnd::done);
    EXPECT_EQ(tier.read(5, 100, 9), TierEnd::done);
    EXPECT_EQ(tier.read(5, 100, 3), TierEnd::miss);
    fs::remove(sidecar());
  }
}

TEST_F(DiskTest, OfACopyThatWasPutTwiceTheLaterCounts) {
  for (const size_t size : {100, 200}) {
    TierUser tier(settings_);
    tier.drop(5);  // the disk does not learn of it
    ASSERT_EQ(tier.write(5, size), TierEnd::done);
    fs::remove(sidecar());
  }
  {
    DiskSettings full = settings_;
    full.segment_bytes = 1;
    TierUser tier(full);
    ASSERT_EQ(samples_of(tier.found()), (Samples{5}));
    EXPECT_EQ(tier.read(5, 200), TierEnd::done);
    tier.drop(5);
    ASSERT_EQ(tier.write(5, 300), TierEnd::done);  // in a younger segment
  }
  TierUser tier(settings_);
  ASSERT_EQ(tier.found().size(), 1u);
  EXPECT_EQ(tier.read(5, 300), TierEnd::done);
}

TEST_P(DiskTierTest, ARangeIsReadWithoutTheRest) {
  TierUser tier(settings_);
  ASSERT_EQ(tier.write(1, 3'000'000), TierEnd::done);
  const Bytes right = bytes_of(1, 3'000'000);
  Bytes into(1000);
  std::atomic<bool> done{false};
  const Tier::Borrower me = tier->lend([&](std::span<const TierAnswer> answers) {
    EXPECT_EQ(answers[0].end, TierEnd::done);
    EXPECT_EQ(answers[0].checksum, checksum64(into));
    done = true;
    done.notify_all();
  });
  Get get{1, TierUser::key_of(1, 1), 3'000'000, 2'000'000, into, nullptr};
  tier->submit(me, std::span(&get, 1), Traffic::training);
  done.wait(false);
  tier->give_back(me);
  EXPECT_TRUE(std::equal(into.begin(), into.end(), right.begin() + 2'000'000));
  EXPECT_LE(tier.counter("read_bytes"), 80'000u);
}

TEST_F(DiskTest, ShortRunsGoOnWithTheSameSegment) {
  for (uint64_t run = 0; run < 30; ++run) {
    TierUser tier(settings_);
    ASSERT_EQ(tier.found().size(), run);
    ASSERT_EQ(tier.write(run, 1000 + run * 200), TierEnd::done);
    for (uint64_t sample = 0; sample <= run; ++sample) {
      ASSERT_EQ(tier.read(sample, 1000 + sample * 200), TierEnd::done);
    }
    EXPECT_EQ(tier.used(), bytes_on_disk());
  }
  EXPECT_TRUE(fs::exists(segment(1)));
  EXPECT_FALSE(fs::exists(segment(2)));
  fs::remove(sidecar(1));
  TierUser tier(settings_);
  EXPECT_EQ(tier.found().size(), 30u);
}

TEST_F(DiskTest, AnyNumberOfMembersFindsEverything) {
  for (uint32_t m = 0; m < 4; ++m) {
    TierUser tier(member(m, 4));
    for (uint64_t sample = m; sample < 40; sample += 4) {
      ASSERT_EQ(tier.write(sample, 500), TierEnd::done);
    }
  }
  for (const uint32_t members : {1u, 2u, 3u, 4u, 6u, 8u}) {
    std::vector<std::unique_ptr<TierUser>> tiers;
    Samples all;
    for (uint32_t m = 0; m < members; ++m) {
      tiers.push_back(std::make_unique<TierUser>(member(m, members)));
      ASSERT_TRUE(*tiers.back()) << tiers.back()->error().message;
      for (const FoundSample& entry : tiers.back()->found()) {
        all.push_back(entry.sample);
        EXPECT_EQ(tiers.back()->read(entry.sample, entry.size), TierEnd::done);
      }
    }
    std::sort(all.begin(), all.end());
    Samples expected(40);
    for (uint64_t i = 0; i < 40; ++i) expected[i] = i;
    EXPECT_EQ(all, expected) << members << " members";
  }
}

TEST_F(DiskTest, TwoJobsAtOnceDoNotShare) {
  {
    TierUser first(settings_);
    ASSERT_EQ(first.write(1, 100), TierEnd::done);
    TierUser second(settings_);
    ASSERT_TRUE(second) << second.error().message;
    EXPECT_TRUE(second.found().empty());
    ASSERT_EQ(second.write(1, 100), TierEnd::done);
    ASSERT_EQ(second.write(2, 100), TierEnd::done);
    EXPECT_EQ(first.read(2, 100), TierEnd::miss);
  }
  EXPECT_TRUE(fs::exists(slot(1)));
  TierUser third(settings_);
  EXPECT_EQ(samples_of(third.found()), (Samples{1, 2}));
}

TEST_F(DiskTest, AnswersFullWhenNothingCanBeWonBack) {
  settings_.budget = uint64_t{1} << 20;
  TierUser tier(settings_);
  uint64_t written = 0;
  while (tier.write(written, 50'000) == TierEnd::done) ++written;
  EXPECT_GE(written, 15u);
  EXPECT_LE(tier.used(), settings_.budget);
  for (uint64_t sample = 0; sample < written; ++sample) {
    EXPECT_EQ(tier.read(sample, 50'000), TierEnd::done);
  }
  EXPECT_EQ(tier.write(1000, 2 << 20), TierEnd::full);
  EXPECT_EQ(tier.write(1001, 50'000), TierEnd::full);
  EXPECT_EQ(tier->dead(), std::nullopt);
}

TEST_F(DiskTest, TheQueueOfWritesIsBounded) {
  settings_.queue_bytes = 100'000;
  TierUser tier(settings_);
  std::vector<uint64_t> ids;
  for (uint64_t sample = 0; sample < 100; ++sample) {
    ids.push_back(tier.start_write(sample, bytes_of(sample, 50'000)));
  }
  for (uint64_t sample = 0; sample < 100; ++sample) {
    const TierEnd answer = tier.wait(ids[sample]);
    EXPECT_EQ(tier.holds(sample), answer == TierEnd::done);
    EXPECT_TRUE(answer == TierEnd::done || answer == TierEnd::full);
  }
  EXPECT_EQ(tier.wait(ids[0]), TierEnd::done);
}

TEST_F(DiskTest, WinsBackWhatNobodyWants) {
  settings_.budget = uint64_t{1} << 20;
  uint64_t written = 0;
  {
    TierUser tier(settings_);
    while (tier.write(written, 20'000) == TierEnd::done) ++written;
  }
  TierUser tier(settings_);
  tier.keep([](uint64_t) { return false; });
  for (uint64_t sample = 0; sample < written - 4; ++sample) {
    ASSERT_EQ(tier.write(sample, 20'000, 2), TierEnd::done) << sample << " of " << written;
    ASSERT_LE(bytes_on_disk(), settings_.budget);
  }
  for (uint64_t sample = 0; sample < written - 4; ++sample) {
    EXPECT_EQ(tier.read(sample, 20'000, 2), TierEnd::done);
  }
}

TEST_F(DiskTest, WinsBackWhatIsNotWantedAndSavesTheRest) {
  settings_.budget = uint64_t{2} << 20;
  settings_.segment_bytes = uint64_t{256} << 10;
  uint64_t written = 0;
  {
    TierUser tier(settings_);
    while (tier.write(written, 20'000) == TierEnd::done) ++written;
  }
  TierUser tier(settings_);
  tier.keep([](uint64_t sample) { return sample % 10 == 0; });
  EXPECT_TRUE(tier.holds(1));  // until the room is needed
  uint64_t added = 0;
  while (added < written * 3 / 4) {
    ASSERT_EQ(tier.write(10'000 + added, 20'000), TierEnd::done) << added << " of " << written;
    ASSERT_LE(bytes_on_disk(), settings_.budget);
    EXPECT_EQ(tier.used(), bytes_on_disk());
    ++added;
  }
  uint64_t lost = 0;
  for (uint64_t sample = 0; sample < written; sample += 10) {
    if (!tier.holds(sample)) {
      ++lost;
    } else {
      EXPECT_EQ(tier.read(sample, 20'000), TierEnd::done);
    }
  }
  EXPECT_EQ(lost, 0u);
  for (uint64_t i = 0; i < added; ++i) {
    EXPECT_EQ(tier.read(10'000 + i, 20'000), TierEnd::done);
  }
}

TEST_F(DiskTest, NeverExceedsTheBudget) {
  settings_.budget = uint64_t{1} << 20;
  settings_.segment_bytes = uint64_t{64} << 10;
  for (int run = 0; run < 4; ++run) {
    TierUser tier(settings_);
    tier.keep([](uint64_t) { return false; });
    std::map<uint64_t, uint64_t> versions;
    for (uint64_t i = 0; i < 150; ++i) {
      const uint64_t random = mix64(static_cast<uint64_t>(run) * 1000 + i + 1);
      const size_t size = random % 7 == 0 ? random / 8 % 150'000 : random / 8 % 12'000;
      const uint64_t sample = random / 64 % 100;
      tier.drop(sample, std::exchange(versions[sample], i + 1));
      tier.write(sample, size, i + 1);
      const uint64_t dropped = mix64(i + 7) % 100;
      if (i % 2 == 0) tier.drop(dropped, versions[dropped]);
      ASSERT_LE(bytes_on_disk(), settings_.budget);
      ASSERT_EQ(tier.used(), bytes_on_disk());
    }
    EXPECT_EQ(tier->dead(), std::nullopt);
    tier.close();
    ASSERT_LE(bytes_on_disk(), settings_.budget);
  }
}

TEST_F(DiskTest, ASmallerBudgetGivesSegmentsUp) {
  settings_.budget = uint64_t{4} << 20;
  settings_.segment_bytes = uint64_t{256} << 10;
  {
    TierUser tier(settings_);
    for (uint64_t sample = 0; sample < 30; ++sample) tier.write(sample, 100'000);
  }
  settings_.budget = uint64_t{1} << 20;
  TierUser tier(settings_);
  EXPECT_LE(bytes_on_disk(), settings_.budget);
  EXPECT_EQ(tier.used(), bytes_on_disk());
  EXPECT_GE(tier.found().size(), 4u);
  for (const FoundSample& entry : tier.found()) {
    EXPECT_EQ(tier.read(entry.sample, entry.size), TierEnd::done);
  }
}

// Readers, writers and droppers at once, with room being won back all the time.
TEST_P(DiskTierTest, ThreadsMayDoEverythingAtOnce) {
  settings_.budget = uint64_t{1} << 20;
  settings_.segment_bytes = uint64_t{64} << 10;
  TierUser tier(settings_);
  ASSERT_TRUE(tier) << tier.error().message;
  constexpr unsigned kThreads = 4;
  std::latch start(kThreads);
  std::atomic<uint64_t> hits{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (uint64_t step = 0; step < 150; ++step) {
        const uint64_t random = mix64((uint64_t{t} << 32) + step + 1);
        const uint64_t sample = random % 100;
        const size_t size = 100 + sample * 200;
        if (random / 128 % 8 == 0) tier.drop(sample);
        tier.write((sample + 1) % 100, 100 + (sample + 1) % 100 * 200);
        const TierEnd answer = tier.read(sample, size);
        EXPECT_TRUE(answer == TierEnd::done || answer == TierEnd::miss);
        if (answer == TierEnd::done) ++hits;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(hits, 0u);
  EXPECT_EQ(tier->dead(), std::nullopt);
  EXPECT_LE(bytes_on_disk(), settings_.budget);
}

TEST_F(DiskTest, CountsWhatItAsksOfTheDisk) {
  settings_.operations = std::make_shared<Operations>();
  TierUser tier(settings_);
  ASSERT_EQ(tier.write(1, 10'000), TierEnd::done);
  ASSERT_EQ(tier.read(1, 10'000), TierEnd::done);
  EXPECT_EQ(settings_.operations->totals(Operation::open).count, 1u);
  EXPECT_GE(settings_.operations->totals(Operation::write).bytes, 10'000u);
  EXPECT_GE(settings_.operations->totals(Operation::read).bytes, 10'000u);
}

TEST_F(DiskTest, RefusesWrongSettings) {
  const auto expect = [](const DiskSettings& settings, ErrorKind kind, const std::string& words) {
    TierUser tier(settings);
    ASSERT_FALSE(tier);
    EXPECT_EQ(tier.error().kind, kind);
    EXPECT_NE(tier.error().message.find(words), std::string::npos) << tier.error().message;
  };
  DiskSettings small = settings_;
  small.budget = 1000;
  expect(small, ErrorKind::invalid, "a budget of 1000 B is too small");
  DiskSettings large = settings_;
  large.budget = uint64_t{1} << 60;
  expect(large, ErrorKind::invalid, "lower the disk budget");
  expect(member(2, 2), ErrorKind::invalid, "member 2 of 2");
  DiskSettings nowhere = settings_;
  nowhere.folder = "";
  expect(nowhere, ErrorKind::invalid, "without a folder");
  replace(folder_ / "file", "x");
  DiskSettings file = settings_;
  file.folder = folder_ / "file";
  expect(file, ErrorKind::unreadable, "cannot use disk cache folder");
}

TEST(DiskBudget, IsWhatAPayloadNeedsAndLittleMore) {
  for (const uint64_t mean : {1ull, 1000ull, 100'000ull, 17'000'000ull}) {
    for (const uint64_t samples : {1ull, 60ull, 10'000ull, 1'000'000ull}) {
      const uint64_t budget = disk_budget_for(mean * samples, mean);
      EXPECT_GE(disk_payload(budget, mean), mean * samples);
      EXPECT_LT(disk_payload(budget - budget / 50, mean), mean * samples + (64 << 10));
    }
  }
}

}  // namespace
}  // namespace foreload
