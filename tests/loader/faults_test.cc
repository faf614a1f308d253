// SPDX-License-Identifier: Apache-2.0
//
// What goes wrong while a rank runs, injected one by one; each test says within which time the run
// goes on or ends. Every delivered byte is compared with the file.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>

#include "foreload/formats/format.h"
#include "foreload/formats/index_catalog.h"
#include "foreload/stores/file_store.h"
#include "foreload/tiers/tier.h"

#include "../base/without_privilege.h"
#include "loader_fixture.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

class LoaderFaults : public LoaderTest {
 protected:
  // The error that ends the run.
  static Error end_of(Loader& loader) {
    while (true) {
      auto batch = loader.next();
      if (!batch) return batch.error();
      if (*batch) continue;
      auto more = loader.next();
      if (!more) return more.error();
      if (!*more) break;
    }
    ADD_FAILURE() << "the run came to its end";
    return {ErrorKind::invalid, ""};
  }
  static void expect_names(const Error& error, const std::string& what) {
    EXPECT_NE(error.message.find(what), std::string::npos) << error.message;
    EXPECT_EQ(error.message.find('\n'), std::string::npos) << error.message;
  }
};

// EIO comes back three times: the error names the file, the tries and the remedy, after two waits
// of 0.1 and 0.2 s.
TEST_F(LoaderFaults, AnErrorThatStaysEndsTheRunAfterThreeTries) {
  LoaderSettings with = settings(1);
  Shape shape;
  shape.fault_share = 1;
  with.wrap_source = shaped(shape);
  const auto loader = open(with);
  const auto begin = Clock::now();
  const Error error = end_of(*loader);
  EXPECT_LT(Clock::now() - begin, seconds(10));
  expect_names(error, "after 3 tries");
  expect_names(error, ".jpg");
  expect_names(error, "on_error='skip'");
}

TEST_F(LoaderFaults, AFileWithoutPermissionIsNamed) {
  const WithoutPrivilege ordinary;
  chmod(file(7).c_str(), 0);
  expect_names(end_of(*open(settings(1))), "cat/00007.jpg");
}

// A file that is cut while the index still has its old size.
TEST_F(LoaderFaults, AShortFileIsNamed) {
  LoaderSettings with = settings(1);
  with.index = root_ / "index";
  run_all(*open(with), 1);
  std::filesystem::resize_file(file(60), contents_.at(60).size() / 2);
  expect_names(end_of(*open(with)), "dog/00060.jpg");
}

TEST_F(LoaderFaults, AFileThatGrewIsNamed) {
  LoaderSettings with = settings(1);
  with.index = root_ / "index";
  run_all(*open(with), 1);
  std::ofstream(file(60), std::ios::app) << "more";
  expect_names(end_of(*open(with)), "List the data set again");
}

// Reads take 2 s more than the loop's patience with a hedge; nothing fails, nothing is read twice
// beyond the share of hedged reads.
TEST_F(LoaderFaults, ASourceThatStallsComesBack) {
  LoaderSettings with = settings(1);
  Shape shape;
  shape.stall_share = 0.02;
  shape.stall = milliseconds(2000);
  with.wrap_source = shaped(shape);
  const auto loader = open(with);
  run_all(*loader, 1);
  EXPECT_EQ(loader->stats().engine.source_errors, 0u);
  EXPECT_LE(loader->stats().engine.policy.hedged_bytes, total() / 200);
}

// The same as long as a broken switch takes.
TEST_F(LoaderFaults, TwentySecondsSoak) {
  LoaderSettings with = settings(1);
  Shape shape;
  shape.stall_share = 0.05;
  shape.stall = milliseconds(20'000);
  with.wrap_source = shaped(shape);
  run_all(*open(with), 1);
}

// The data set changes while its cached copies are in use: what is cached is what was listed, and
// goes on being delivered; what must be read again is an error of its own kind.
TEST_F(LoaderFaults, AChangeInMidRunIsNoticed) {
  LoaderSettings with = settings(4);
  with.memory = total() / 2;
  const auto loader = open(with);
  EXPECT_EQ(epoch(*loader), list(loader->plan(), 0));
  for (uint64_t sample = 0; sample < 100; ++sample)
    std::ofstream(file(sample), std::ios::binary) << "another file";
  expect_names(end_of(*loader), "List the data set again");
}

// Listed again, the copies on disk of the files that changed are not taken for them.
TEST_F(LoaderFaults, CopiesOfChangedFilesAreDropped) {
  LoaderSettings with = settings(1);
  with.disks = {{root_ / "cache", 2 * total() + (1 << 20)}};
  run_all(*open(with), 1);
  for (uint64_t sample = 0; sample < 10; ++sample)
    write_file(sample, "new " + std::to_string(sample));
  with.revalidate = true;
  const auto loader = open(with);
  run_all(*loader, 1);
}

TEST_F(LoaderFaults, ACacheFolderOfAnotherDataSetIsNotMixedUp) {
  LoaderSettings with = settings(1);
  with.disks = {{root_ / "cache", 4 * total() + (1 << 20)}};
  run_all(*open(with), 1);
  for (uint64_t sample = 0; sample < 100; ++sample) {
    // Same names and sizes below another folder.
    std::string bytes = contents_.at(sample);
    for (char& byte : bytes) byte = static_cast<char>(~byte);
    contents_[sample] = bytes;
    const auto other = root_ / "other" / file(sample).lexically_relative(root_ / "data");
    std::filesystem::create_directories(other.parent_path());
    std::ofstream(other, std::ios::binary) << bytes;
  }
  with.dataset = root_ / "other";
  const auto loader = open(with);
  EXPECT_EQ(loader->stats().held_samples, 0u);
  run_all(*loader, 1);
}

TEST_F(LoaderFaults, ASampleLargerThanStagingIsDelivered) {
  LoaderSettings with = settings(2);
  with.staging = 100;
  with.memory = total();
  run_all(*open(with), 2);
}

// A disk that becomes full in mid-run turns the tier off, or leaves samples out; never the run.
TEST_F(LoaderFaults, AFullDiskIsNotTheEnd) {
  const auto mount_point = root_ / "small";
  std::filesystem::create_directories(mount_point);
  if (mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=1m") != 0)
    GTEST_SKIP() << "no right to mount";
  {
    LoaderSettings with = settings(3);
    with.disks = {{mount_point / "cache", 900 << 10}};
    const auto loader = open(with);
    EXPECT_EQ(epoch(*loader), list(loader->plan(), 0));
    // Somebody else takes what is left.
    std::ofstream(mount_point / "other", std::ios::binary) << std::string(1 << 20, 'x');
    EXPECT_EQ(epoch(*loader), list(loader->plan(), 1));
    EXPECT_EQ(epoch(*loader), list(loader->plan(), 2));
  }
  umount2(mount_point.c_str(), MNT_DETACH);
}

// It prints nothing anywhere if nobody says so: the verdict does, in this epoch and all later ones.
TEST_F(LoaderFaults, ADiskThatFillsUpIsInEveryVerdict) {
  const auto mount_point = root_ / "small";
  std::filesystem::create_directories(mount_point);
  if (mount("tmpfs", mount_point.c_str(), "tmpfs", 0, "size=2m") != 0)
    GTEST_SKIP() << "no right to mount";
  {
    LoaderSettings with = settings(3);
    with.disks = {{mount_point / "cache", 3 << 19}};
    Shape shape;
    shape.bytes_per_second = static_cast<double>(total());  // a second for an epoch
    with.wrap_source = shaped(shape);
    const auto loader = open(with);
    // Somebody else takes all the room before anything is kept there.
    std::ofstream(mount_point / "other", std::ios::binary) << std::string(2 << 20, 'x');
    for (int e = 0; e < 3; ++e) {
      epoch(*loader);
      const EpochFigures figures = loader->epoch_stats().figures;
      // Writing lags behind the first epoch.
      if (e == 0) continue;
      ASSERT_EQ(figures.lost_tiers.size(), 1u);
      EXPECT_NE(figures.lost_tiers[0].find((mount_point / "cache").string()), std::string::npos);
      EXPECT_EQ(figures.kept_bytes, 0u);
      EXPECT_EQ(judge(figures).losses, figures.lost_tiers);
    }
    EXPECT_EQ(loader->stats().figures.lost_tiers.size(), 1u);
  }
  umount2(mount_point.c_str(), MNT_DETACH);
}

TEST_F(LoaderFaults, ASlowSourceIsTheLimitAndASlowLoopIs) {
  LoaderSettings with = settings(1);
  Shape shape;
  shape.bytes_per_second = static_cast<double>(total());  // a second for an epoch
  with.wrap_source = shaped(shape);
  const auto slow_source = open(with);
  epoch(*slow_source);
  const EpochStats source = slow_source->epoch_stats();
  EXPECT_EQ(judge(source.figures).limit, Limit::source);
  EXPECT_DOUBLE_EQ(judge(source.figures).waited, source.wait_seconds / source.seconds);

  const auto slow_loop = open(settings(1));
  while (*slow_loop->next()) std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(judge(slow_loop->epoch_stats().figures).limit, Limit::loop);
  // The first batch was waited for, and that counts.
  EXPECT_GT(slow_loop->epoch_stats().figures.first_wait, 0);
  EXPECT_GE(slow_loop->epoch_stats().figures.waited, slow_loop->epoch_stats().figures.first_wait);
}

TEST_F(LoaderFaults, AReadOnlyDiskIsAClearErrorAtTheStart) {
  const auto mount_point = root_ / "readonly";
  std::filesystem::create_directories(mount_point);
  if (mount("tmpfs", mount_point.c_str(), "tmpfs", MS_RDONLY, "size=1m") != 0)
    GTEST_SKIP() << "no right to mount";
  LoaderSettings with = settings(1);
  with.disks = {{mount_point / "cache", 900 << 10}};
  const auto loader = Loader::open(with);
  ASSERT_FALSE(loader);
  expect_names(loader.error(), (mount_point / "cache").string());
  umount2(mount_point.c_str(), MNT_DETACH);
}

// 64 descriptors for everything: the program, its libraries and 100 files.
TEST_F(LoaderFaults, SixtyFourDescriptorsAreEnough) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  {
    LoaderSettings with = settings(2);
    with.disks = {{root_ / "cache", total() + (1 << 20)}};
    const auto loader = open(with);
    if (loader) run_all(*loader, 2);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

// A disk that takes reads and never answers them: its copies are misses after the tier's deadline.
class SilentDisk final : public Tier {
 public:
  std::string_view kind() const override { return "disk"; }
  uint64_t capacity(uint64_t) const override { return 0; }
  Borrower lend(Answered, Run) override { return 1; }
  void give_back(Borrower) override {}
  std::vector<FoundCopy> found() const override { return {}; }
  void keep(Borrower, const Wanted&) override {}
  void want(Borrower, const CopyKey&) override {}
  void submit(Borrower, std::span<Get> gets, Traffic) override {
    gets_.insert(gets_.end(), gets.begin(), gets.end());
  }
  void submit(Borrower, std::span<Put>, Traffic) override {}
  void cancel(Borrower, uint64_t) override {}
  void drop(const CopyKey&) override {}
  std::shared_ptr<const void> pin(const CopyKey&) override { return nullptr; }
  bool holds(const CopyKey&) const override { return true; }
  uint64_t payload() const override { return 0; }
  void visit(const VisitCounter&) const override {}
  std::optional<std::string> dead() const override { return std::nullopt; }

 private:
  std::vector<Get> gets_;
};

TEST_F(LoaderFaults, ADiskThatNeverAnswersIsGivenUp) {
  // The parts of a loader by hand, to put the disk in.
  auto index = open_dataset({(root_ / "data").native()}, ListingOptions{{".jpg"}});
  ASSERT_TRUE(index);
  EngineParts parts;
  parts.index = std::make_shared<const DatasetIndex>(std::move(*index));
  parts.inbox = std::make_shared<Inbox>();
  Job job;
  job.epochs = 1;
  job.batching = {8, false};
  job.tiers = {{{"memory", 0, 2}, {"disk", total(), 1}}};
  for (uint64_t sample = 0; sample < 100; ++sample) job.held.push_back({sample, 0, 1});
  auto plan = Plan::make(job, *Sizes::of(parts.index->sample_sizes()));
  ASSERT_TRUE(plan);
  parts.plan = std::make_shared<const Plan>(std::move(*plan));
  parts.held = job.held;
  // The plan leaves the first one alone.
  parts.tiers = {std::make_shared<SilentDisk>(), std::make_shared<SilentDisk>()};
  SourceSettings settings;
  settings.objects = std::make_shared<IndexCatalog>(parts.index);
  auto source =
      FileStore(root_ / "data").open(settings, [inbox = parts.inbox](SourceAnswer answer) {
        inbox->post(std::move(answer));
      });
  ASSERT_TRUE(source);
  parts.source = std::move(*source);
  parts.staging = Staging::create(1 << 20);
  parts.policy.tier_deadline = milliseconds(200);
  parts.policy.window_bytes = 1 << 20;
  Engine engine(std::move(parts));
  for (int i = 0; i < 13; ++i) {
    const auto batch = engine.next(Clock::now() + seconds(60));
    ASSERT_TRUE(batch) << batch.error().message;
    expect_bytes(*batch);
    engine.release();
  }
  const EngineStats stats = engine.stats();
  EXPECT_GE(stats.policy.late_tier_reads, 1u);
  ASSERT_EQ(stats.lost_tiers.size(), 1u);
  EXPECT_NE(stats.lost_tiers[0].find("does not answer"), std::string::npos);
}

// A read that stalls while the loop waits for it is read a second time.
TEST_F(LoaderFaults, AStalledReadIsHedged) {
  LoaderSettings with = settings(4);
  with.staging = 1;  // one batch at a time
  Shape shape;
  shape.hangs = [](uint32_t object, unsigned attempt) { return object == 42 && attempt == 3; };
  with.wrap_source = shaped(shape);
  with.read_deadline = seconds(100);
  with.batching.batch_size = 2;
  // Samples small enough for the share of hedged reads after three epochs.
  write_file(42, "x");
  const auto loader = open(with);
  const auto begin = Clock::now();
  run_all(*loader, 4);
  EXPECT_LT(Clock::now() - begin, seconds(60));
  EXPECT_GE(loader->stats().engine.policy.hedged, 1u);
}

}  // namespace
}  // namespace foreload
