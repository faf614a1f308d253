// SPDX-License-Identifier: Apache-2.0
//
// One rank as a user runs it: real files, real caches, injected faults. Every test compares every
// byte of every delivered sample with what is in the file.
#include "foreload/loader/loader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "loader_fixture.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

size_t entries_in(const char* folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(folder)) ++count;
  return count;
}

TEST_F(LoaderTest, GivesEveryEpochsListWithTheRightBytes) {
  const auto loader = open(settings());
  run_all(*loader, 3);
  // Without a cache every epoch reads everything, but for what two open batches share.
  EXPECT_LE(loader->stats().engine.source_bytes, 3 * total());
  EXPECT_GE(loader->stats().engine.source_bytes, total());
  EXPECT_FALSE(*loader->next());  // and nothing after the last epoch
}

// Copies from one open batch to another counted as read from the source.
TEST_F(LoaderTest, WhatBatchesHaveFromTheSourceWasReadThere) {
  LoaderSettings with = settings(3);
  with.staging = 4 << 20;  // batches of several epochs are open at once, and share what is read
  const auto loader = open(with);
  uint64_t from_source = 0;
  for (int i = 0; i < 3; ++i) {
    epoch(*loader);
    from_source += loader->epoch_stats().from_bytes[static_cast<size_t>(From::source)];
  }
  const EngineStats stats = loader->stats().engine;
  EXPECT_EQ(from_source, stats.source_bytes);
  EXPECT_LT(from_source, 3 * total());
}

TEST_F(LoaderTest, WorksWithThreadsToo) {
  LoaderSettings with = settings();
  with.io_engine = IoEngine::threads;
  run_all(*open(with), 3);
}

TEST_F(LoaderTest, ReadsTheSourceOnceIfMemoryHoldsEverything) {
  LoaderSettings with = settings(4);
  with.memory = total();
  const auto loader = open(with);
  run_all(*loader, 4);
  EXPECT_EQ(loader->stats().engine.source_bytes, total());
  EXPECT_EQ(loader->epoch_stats().from_bytes[static_cast<size_t>(From::memory)], total());
}

TEST_F(LoaderTest, ReadsWhatThePlanSaysIfCachesHoldAPart) {
  LoaderSettings with = settings(5);
  with.memory = total() / 4;
  with.disks = {{root_ / "cache", total() / 3}};
  with.staging = 100'000;
  const auto loader = open(with);
  run_all(*loader, 5);
  const uint64_t bound = loader->plan().traffic().source_bytes_lower_bound;
  EXPECT_GE(loader->stats().engine.source_bytes, bound);
  EXPECT_LE(loader->stats().engine.source_bytes, bound + 5 * 2 * 20'000 + bound / 20);
}

TEST_F(LoaderTest, NoMoreComesFromMemoryThanItHolds) {
  LoaderSettings with = settings(3);
  with.memory = 30'000;
  with.disks = {{root_ / "cache", 2 * total() + (1 << 20)}};
  with.staging = 4 << 20;  // batches of several epochs are open at once, and share what is read
  const auto loader = open(with);
  for (int i = 0; i < 3; ++i) {
    epoch(*loader);
    EXPECT_LE(loader->epoch_stats().from_bytes[static_cast<size_t>(From::memory)], with.memory);
  }
}

TEST_F(LoaderTest, TakesOnlyWhatTheDataSetCanUse) {
  LoaderSettings with = settings(2);
  with.memory = 10 * total();
  with.disks = {{root_ / "cache", 100 << 20}};
  with.only_needed = true;
  const auto loader = open(with);
  const auto& tiers = loader->stats().start.tiers;
  ASSERT_EQ(tiers.size(), 2u);
  EXPECT_EQ(tiers[0].bytes, total());
  EXPECT_GE(tiers[1].bytes, total());
  EXPECT_LE(tiers[1].bytes, 2 * total() + (1 << 20));
  run_all(*loader, 2);
  EXPECT_EQ(loader->stats().engine.source_bytes, total());
}

TEST_F(LoaderTest, LanesOfOneFolderDoNotTakeEachOthersLeftovers) {
  LoaderSettings with = settings(1);
  with.disks = {{root_ / "cache", 2 * total() + (1 << 20)}};
  with.lanes = 2;
  with.lane = 1;
  run_all(*open(with), 1);
  with.lane = 0;
  EXPECT_EQ(open(with)->stats().held_samples, 0u);
  with.lane = 1;
  EXPECT_EQ(open(with)->stats().held_samples, 100u);
}

TEST_F(LoaderTest, StartsWarmUnderAnotherSeedFromAFullDisk) {
  LoaderSettings with = settings(2);
  with.disks = {{root_ / "cache", 2 * total() + (1 << 20)}};
  run_all(*open(with), 2);
  with.seed = 99;
  with.epochs = 3;
  const auto loader = open(with);
  run_all(*loader, 3);
  EXPECT_EQ(loader->stats().held_samples, 100u);
  EXPECT_EQ(loader->stats().engine.source_bytes, 0u);
}

// Copies are found by what they are, not by their place in a listing.
TEST_F(LoaderTest, OneMoreFileCostsNoCopy) {
  LoaderSettings with = settings(1);
  with.disks = {{root_ / "cache", 2 * total() + (1 << 20)}};
  run_all(*open(with), 1);
  std::ofstream(root_ / "data" / "cat" / "00000-first.jpg") << "one more";
  with.revalidate = true;
  with.epochs = 2;
  const auto loader = open(with);
  while (*loader->next()) continue;
  EXPECT_EQ(loader->stats().held_samples, 100u);
  EXPECT_EQ(loader->stats().engine.source_bytes, 8u);
}

TEST_F(LoaderTest, FindsOnDiskWhatWasInMemoryIfTheDiskHadRoom) {
  LoaderSettings with = settings(2);
  with.memory = total() / 2;
  with.disks = {{root_ / "cache", 2 * total() + (1 << 20)}};
  run_all(*open(with), 2);
  with.staging = 100'000;  // so that the second epoch is not read before the first one ends
  const auto loader = open(with);
  run_all(*loader, 2);
  EXPECT_EQ(loader->stats().engine.source_bytes, 0u);
  // Copies moved up to memory while they were read.
  EXPECT_GT(loader->epoch_stats().from_bytes[static_cast<size_t>(From::memory)], total() / 3);
}

TEST_F(LoaderTest, UsesASavedIndexWithoutListing) {
  LoaderSettings with = settings(1);
  with.index = root_ / "index";
  EXPECT_TRUE(open(with)->stats().listed);
  const auto loader = open(with);
  EXPECT_FALSE(loader->stats().listed);
  run_all(*loader, 1);
}

TEST_F(LoaderTest, GoesOnFromAnotherPlace) {
  const auto loader = open(settings(5));
  ASSERT_TRUE(*loader->next());
  loader->seek(3, 40);
  const auto whole = list(loader->plan(), 3);
  EXPECT_EQ(epoch(*loader), std::vector<uint64_t>(whole.begin() + 40, whole.end()));
  EXPECT_EQ(epoch(*loader), list(loader->plan(), 4));
  EXPECT_FALSE(*loader->next());
}

TEST_F(LoaderTest, GoesOnForEverIfNobodySaysHowLong) {
  LoaderSettings with = settings();
  with.epochs.reset();
  with.memory = total();
  const auto loader = open(with);
  run_all(*loader, 40);
}

TEST_F(LoaderTest, LetsTheUserKeepEveryBatch) {
  LoaderSettings with = settings(2);
  with.memory = total();
  const auto loader = open(with);
  std::vector<Batch> kept;
  for (int e = 0; e < 2; ++e) {
    while (auto batch = std::move(*loader->next())) kept.push_back(std::move(*batch));
  }
  for (const Batch& batch : kept) expect_bytes(batch);
}

TEST_F(LoaderTest, TriesAgainAfterTransientErrors) {
  LoaderSettings with = settings(2);
  Shape shape;
  shape.fault_share = 0.2;
  with.tries = 20;
  with.wrap_source = shaped(shape);
  const auto loader = open(with);
  run_all(*loader, 2);
  EXPECT_GT(loader->stats().engine.policy.retries, 0u);
}

// As if it went after the start, at which the time of its folder would tell.
void remove_unnoticed(const fs::path& file) {
  const auto time = fs::last_write_time(file.parent_path());
  fs::remove(file);
  fs::last_write_time(file.parent_path(), time);
}

TEST_F(LoaderTest, NamesAFileThatIsGone) {
  const auto loader = open([&] {
    LoaderSettings with = settings(1);
    with.index = root_ / "index";
    open(with);
    remove_unnoticed(file(7));
    return with;
  }());
  Result<std::optional<Batch>> batch = std::nullopt;
  do batch = loader->next();
  while (batch && *batch);
  ASSERT_FALSE(batch);
  EXPECT_NE(batch.error().message.find("sample 7 (cat/00007.jpg)"), std::string::npos)
      << batch.error().message;
  EXPECT_FALSE(loader->next());  // and goes on saying so
}

TEST_F(LoaderTest, SkipsBadSamplesAndKeepsBatchesFull) {
  LoaderSettings with = settings(2);
  with.index = root_ / "index";
  open(with);
  remove_unnoticed(file(7));
  remove_unnoticed(file(50));
  with.skip_bad_samples = true;
  const auto loader = open(with);
  for (uint64_t e = 0; e < 2; ++e) {
    auto expected = list(loader->plan(), e);
    for (size_t i = 0; i < expected.size(); ++i) {
      // The next good sample of the batch, going round.
      const size_t first = i / 8 * 8;
      const size_t size = std::min<size_t>(8, expected.size() - first);
      const auto whole = list(loader->plan(), e);
      size_t j = i;
      while (whole[j] == 7 || whole[j] == 50) j = first + (j - first + 1) % size;
      expected[i] = whole[j];
    }
    EXPECT_EQ(epoch(*loader), expected);
    EXPECT_EQ(loader->epoch_stats().figures.skipped, 2u);
    EXPECT_EQ(loader->epoch_stats().figures.skipped_names.size(), 2u);
    EXPECT_TRUE(judge(loader->epoch_stats().figures).losses.at(0).starts_with("2 samples skipped"));
  }
  EXPECT_EQ(loader->stats().engine.skipped_samples, 4u);
  EXPECT_EQ(loader->stats().figures.skipped, 4u);
}

TEST_F(LoaderTest, NoticesAFileThatChanged) {
  LoaderSettings with = settings(1);
  with.index = root_ / "index";
  open(with);
  std::ofstream(file(3), std::ios::app) << "more";
  const auto loader = open(with);
  Result<std::optional<Batch>> batch = std::nullopt;
  do batch = loader->next();
  while (batch && *batch);
  ASSERT_FALSE(batch);
  EXPECT_NE(batch.error().message.find("changed"), std::string::npos) << batch.error().message;
  EXPECT_NE(batch.error().message.find("cat/00003.jpg"), std::string::npos);
}

TEST_F(LoaderTest, GivesUpAReadThatHangs) {
  LoaderSettings with = settings(1);
  Shape shape;
  shape.hangs = [](uint32_t object, unsigned) { return object == 11; };
  with.wrap_source = shaped(shape);
  with.read_deadline = milliseconds(200);
  const auto loader = open(with);
  Result<std::optional<Batch>> batch = std::nullopt;
  do batch = loader->next();
  while (batch && *batch);
  ASSERT_FALSE(batch);
  EXPECT_NE(batch.error().message.find("cat/00011.jpg"), std::string::npos)
      << batch.error().message;
}

TEST_F(LoaderTest, SurvivesAReadThatHangsOnce) {
  LoaderSettings with = settings(2);
  Shape shape;
  shape.hangs = [](uint32_t object, unsigned attempt) { return object % 10 == 0 && attempt == 0; };
  with.wrap_source = shaped(shape);
  with.read_deadline = milliseconds(200);
  run_all(*open(with), 2);
}

TEST_F(LoaderTest, TakesDamagedDiskCopiesForMisses) {
  LoaderSettings with = settings(1);
  with.disks = {{root_ / "cache", 2 * total() + (1 << 20)}};
  run_all(*open(with), 1);
  std::mt19937_64 random(3);
  for (const auto& entry : fs::recursive_directory_iterator(root_ / "cache")) {
    if (!entry.is_regular_file() || entry.file_size() < 100'000) continue;
    std::fstream segment(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (int i = 0; i < 10; ++i) {
      segment.seekp(static_cast<std::streamoff>(10'000 + random() % (entry.file_size() - 20'000)));
      segment << "damage";
    }
  }
  with.epochs = 2;
  const auto loader = open(with);
  run_all(*loader, 2);
  EXPECT_GT(loader->stats().engine.source_bytes, 0u);
  EXPECT_LT(loader->stats().engine.source_bytes, total());
}

TEST_F(LoaderTest, GoesOnWithoutItsDiskFolder) {
  LoaderSettings with = settings(3);
  with.disks = {{root_ / "cache", 2 * total() + (1 << 20)}};
  const auto loader = open(with);
  EXPECT_EQ(epoch(*loader), list(loader->plan(), 0));
  // Segments may still be written and renamed meanwhile, which ends one removal with an error.
  for (std::error_code error; fs::exists(root_ / "cache");) fs::remove_all(root_ / "cache", error);
  EXPECT_EQ(epoch(*loader), list(loader->plan(), 1));
  EXPECT_EQ(epoch(*loader), list(loader->plan(), 2));
}

TEST_F(LoaderTest, WorksWithABudgetSmallerThanASample) {
  LoaderSettings with = settings(2);
  with.memory = 1;
  with.staging = 1;
  run_all(*open(with), 2);
}

TEST_F(LoaderTest, RefusesMoreMemoryThanThereIs) {
  LoaderSettings with = settings(2);
  with.memory = uint64_t{1} << 60;
  const auto loader = Loader::open(with);
  ASSERT_FALSE(loader);
  EXPECT_EQ(loader.error().kind, ErrorKind::invalid);
}

TEST_F(LoaderTest, EndsAtOnceWithEverythingInFlight) {
  epoch(*open(settings(1)));  // what a sanitizer or the library starts only once is started now
  const size_t threads = entries_in("/proc/self/task");
  const size_t descriptors = entries_in("/proc/self/fd");
  for (int round = 0; round < 3; ++round) {
    LoaderSettings with = settings(2);
    with.memory = total() / 2;
    with.disks = {{root_ / "cache", total() + (1 << 20)}};
    Shape shape;
    shape.latency = std::chrono::seconds(round == 0 ? 1000 : 0);
    with.wrap_source = shaped(shape);
    const auto loader = open(with);
    if (round > 0) {
      ASSERT_TRUE(*loader->next());
    }
  }
  // The system's own workers of a ring end a moment after the ring.
  for (int i = 0; i < 500 && entries_in("/proc/self/task") > threads; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(entries_in("/proc/self/task"), threads);
  EXPECT_EQ(entries_in("/proc/self/fd"), descriptors);
}

}  // namespace
}  // namespace foreload
