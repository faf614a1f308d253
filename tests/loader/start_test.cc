// SPDX-License-Identifier: Apache-2.0
//
// How a loader begins: with which index, profile, order of disks and memory. Real files.
#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <string>

#include <gtest/gtest.h>

#include "foreload/formats/saved_index.h"
#include "foreload/loader/automatic_budget.h"
#include "foreload/loader/loader.h"
#include "foreload/loader/memory_need.h"
#include "foreload/loader/start_report.h"
#include "foreload/loader/starting_point.h"
#include "foreload/policy/eviction.h"

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::seconds;

fs::path index_file_of(const fs::path& cache, const fs::path& dataset,
                       const std::vector<std::string>& extensions) {
  ListingOptions options;
  options.extensions = extensions;
  return index_file_in(cache, *find_dataset({dataset.native()}, options));
}

// Takes reads and answers none before its end, so that as many are in flight as the policy allows.
class HeldSource final : public Source {
 public:
  struct Count {
    std::mutex mutex;
    std::condition_variable changed;
    size_t reads = 0;
  };
  HeldSource(std::shared_ptr<Count> count, Answered answered)
      : count_(std::move(count)), answered_(std::move(answered)) {}
  ~HeldSource() override {
    for (const uint64_t id : ids_) answered_({id, Fault::cancelled, 0, "cancelled"});
  }
  void submit(std::span<const SourceRead> reads) override {
    const std::scoped_lock lock(count_->mutex);
    for (const SourceRead& read : reads) ids_.push_back(read.id);
    count_->reads += reads.size();
    count_->changed.notify_all();
  }
  void cancel(uint64_t) override {}
  uint64_t abandoned() const override { return 0; }
  std::string describe() const override { return "held"; }

 private:
  std::shared_ptr<Count> count_;
  Answered answered_;
  std::vector<uint64_t> ids_;
};

class StartTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 60; ++i) write(i, std::string(1'000 + 10 * i, static_cast<char>('a' + i)));
    // Whatever the machine has is not this test's.
    ::setenv("XDG_CACHE_HOME", (root_ / "home").c_str(), 1);
  }

  fs::path file(int i) const { return root_ / "data" / ("c" + std::to_string(i % 2)) / name(i); }
  static std::string name(int i) { return std::to_string(100 + i) + ".jpg"; }
  void write(int i, const std::string& bytes) const {
    fs::create_directories(file(i).parent_path());
    std::ofstream(file(i), std::ios::binary) << bytes;
  }

  LoaderSettings settings() const {
    LoaderSettings settings;
    settings.dataset = root_ / "data";
    settings.extensions = {".jpg"};
    settings.epochs = 1;
    settings.batching.batch_size = 8;
    settings.staging = 1 << 20;
    return settings;
  }
  LoaderSettings with_disk() const {
    LoaderSettings with = settings();
    with.disks = {{root_ / "cache", 1 << 20}};
    return with;
  }
  static std::unique_ptr<Loader> open(LoaderSettings settings) {
    auto loader = Loader::open(std::move(settings));
    if (!loader) {
      ADD_FAILURE() << loader.error().message;
      return nullptr;
    }
    return std::move(*loader);
  }
  static std::string refusal(LoaderSettings settings) {
    const auto loader = Loader::open(std::move(settings));
    EXPECT_FALSE(loader);
    if (loader) return "";
    EXPECT_EQ(loader.error().message.find('\n'), std::string::npos);
    return loader.error().message;
  }
  // Samples in the order in which they are delivered.
  static std::map<uint64_t, std::string> read_all(Loader& loader) {
    std::map<uint64_t, std::string> bytes;
    while (true) {
      auto batch = loader.next();
      if (!batch) ADD_FAILURE() << batch.error().message;
      if (!batch || !*batch) return bytes;
      for (size_t i = 0; i < (*batch)->samples.size(); ++i)
        bytes[(*batch)->samples[i]] = std::string(
            reinterpret_cast<const char*>((*batch)->bytes[i].data()), (*batch)->bytes[i].size());
    }
  }
  static DeviceProfile device(DeviceKind kind, const fs::path& path,
                              std::vector<Curve::Point> points) {
    return {.name = std::string(name_of(kind)) + " " + path.native(),
            .kind = kind,
            .path = path.native(),
            .curve = *Curve::create(std::move(points))};
  }
  fs::path save(const MachineProfile& profile, const fs::path& file) const {
    fs::create_directories(file.parent_path());
    EXPECT_TRUE(profile.save(file));
    return file;
  }
  // How many reads the source has before it answers any.
  static size_t reads_in_flight(LoaderSettings with, size_t expected) {
    const auto count = std::make_shared<HeldSource::Count>();
    with.wrap_source = [count](auto, Source::Answered answered) {
      return std::make_unique<HeldSource>(count, std::move(answered));
    };
    const auto loader = open(std::move(with));
    std::unique_lock lock(count->mutex);
    count->changed.wait_for(lock, seconds(20), [&] { return count->reads >= expected; });
    lock.unlock();
    // Time for one too many.
    EXPECT_FALSE(loader->next(std::chrono::steady_clock::now() + milliseconds(20)));
    lock.lock();
    return count->reads;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(StartTest, AnEvictionRuleThatIsNotThereIsRefused) {
  LoaderSettings with = settings();
  for (const EvictionRule& rule : eviction_rules()) {
    with.eviction = rule.name;
    EXPECT_TRUE(open(with));
  }
  with.eviction = "the best";
  EXPECT_TRUE(refusal(with).starts_with("eviction is 'the best': use in turn"));
}

// The saved index.

TEST_F(StartTest, SecondStartWithADiskNeitherListsNorStats) {
  LoaderSettings with = with_disk();
  // Reads stat what they open, so nothing is read here.
  with.wrap_source = [](auto, Source::Answered answered) {
    return std::make_unique<HeldSource>(std::make_shared<HeldSource::Count>(), std::move(answered));
  };
  const auto operations = [&](Operation operation) {
    return open(with)->stats().source_operations->totals(operation).count;
  };
  const auto first = open(with)->stats();
  EXPECT_TRUE(first.listed);
  EXPECT_EQ(first.source_operations->totals(Operation::list).count, 3u);
  EXPECT_EQ(first.source_operations->totals(Operation::stat).count, 60u);
  EXPECT_FALSE(open(with)->stats().listed);
  EXPECT_EQ(operations(Operation::list), 0u);
  EXPECT_EQ(operations(Operation::stat), 3u);  // of the folders, to see whether one has changed
}

TEST_F(StartTest, AListingFromTheCacheSaysSoWithItsAge) {
  const fs::path file = open(with_disk())->stats().start.listing.file;
  fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(73));
  const ListingStart listing = open(with_disk())->stats().start.listing;
  EXPECT_EQ(listing.from, ListingFrom::cache);
  EXPECT_GE(listing.age, 73 * 3'600);
  EXPECT_EQ(listing.text(),
            "listing from cache " + file.native() + ", 3 days old; revalidate lists again");
}

TEST_F(StartTest, AFolderWithANewFileIsListedAgainByItself) {
  open(with_disk());
  std::ofstream(root_ / "data" / "c1" / "new.jpg") << "new";
  fs::last_write_time(root_ / "data" / "c1", fs::file_time_type::clock::now() + seconds(1));
  const auto loader = open(with_disk());
  EXPECT_EQ(loader->index().samples(), 61u);
  const ListingStart listing = loader->stats().start.listing;
  EXPECT_EQ(listing.from, ListingFrom::folder);
  EXPECT_EQ(listing.changed, root_ / "data" / "c1");
  EXPECT_NE(listing.text().find("listed again: folder " + listing.changed.native() + " changed"),
            std::string::npos);
  EXPECT_TRUE(loader->stats().start.warnings.empty());
  EXPECT_FALSE(open(with_disk())->stats().listed);  // and that is kept
}

TEST_F(StartTest, AListingThatCannotBeCheckedIsUsedWithAWarning) {
  open(with_disk());
  fs::rename(root_ / "data", root_ / "moved");
  IndexPlace place{{(root_ / "data").native()}, {}, root_ / "cache", false};
  ListingOptions options;
  options.extensions = {".jpg"};
  const auto opened = open_saved_index(place, options);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->start.from, ListingFrom::cache);
  EXPECT_NE(opened->warning.find("cannot see whether folder"), std::string::npos);
}

TEST_F(StartTest, AnIndexOfAnOlderVersionIsMadeAgain) {
  LoaderSettings with = settings();
  with.index = root_ / "named.index";
  open(with);
  std::fstream(with.index, std::ios::in | std::ios::out | std::ios::binary).seekp(8).put(1);
  EXPECT_TRUE(open(with)->stats().listed);
  EXPECT_FALSE(open(with)->stats().listed);
}

TEST_F(StartTest, ANamedIndexIsRefusedBeforeAnythingIsListed) {
  LoaderSettings with = settings();
  with.index = root_ / "missing" / "named.index";
  EXPECT_NE(refusal(with).find("the folder " + (root_ / "missing").native() + " does not exist"),
            std::string::npos);
}

// Disk caches that are somewhere else, or somebody else's too.

TEST_F(StartTest, ADiskCacheWithoutAParentAsksForIt) {
  LoaderSettings with = settings();
  with.disks = {{root_ / "missing" / "cache", 1 << 20}};
  EXPECT_NE(refusal(with).find("cannot make folder"), std::string::npos);
  EXPECT_FALSE(fs::exists(root_ / "missing"));
}

TEST_F(StartTest, ASecondLoaderOnADiskCacheIsWarnedAndGetsTheRest) {
  const auto first = open(with_disk());
  const auto second = open(with_disk());
  const LoaderStart start = second->stats().start;
  ASSERT_EQ(start.warnings.size(), 1u);
  EXPECT_NE(start.warnings[0].find("another loader of this process"), std::string::npos);
  EXPECT_EQ(start.warnings[0].find('\n'), std::string::npos);
  ASSERT_EQ(start.tiers.size(), 2u);
  ASSERT_EQ(start.tiers[1].others.size(), 1u);
  EXPECT_EQ(start.tiers[1].bytes + start.tiers[1].others[0].bytes(), uint64_t{1} << 20);
  EXPECT_EQ(read_all(*second).size(), 60u);
}

TEST_F(StartTest, ASecondLoaderDoesWithoutADiskCacheThatIsTaken) {
  LoaderSettings with = settings();
  with.disks = {{root_ / "cache", 70 << 10}};
  const auto first = open(with);
  const auto second = open(with);
  EXPECT_EQ(second->stats().start.tiers.size(), 1u);
  EXPECT_EQ(read_all(*second).size(), 60u);
}

TEST_F(StartTest, AnAutomaticBudgetIsHalfOfWhatIsLeftAndSaysSo) {
  fs::create_directories(root_ / "sys/fs/cgroup");
  std::ofstream(root_ / "sys/fs/cgroup/memory.max") << "8388608\n";
  std::ofstream(root_ / "sys/fs/cgroup/memory.current") << "4194304\n";
  const auto budget = automatic_memory(root_);
  ASSERT_TRUE(budget);
  EXPECT_EQ(budget->bytes, uint64_t{2} << 20);
  LoaderSettings with = settings();
  with.memory = budget->bytes;
  with.memory_why = budget->why;
  const std::string tiers = tiers_text(open(with)->stats().start);
  EXPECT_TRUE(
      tiers.starts_with("2.0 MiB memory (auto: half of the 4.0 MiB left by the control "
                        "group's limit"))
      << tiers;
}

TEST_F(StartTest, AnAutomaticDiskBudgetLeavesATenthFree) {
  const auto budget = automatic_disk(root_ / "cache");
  const auto space = fs::space(root_);
  if (!budget) GTEST_SKIP() << budget.error().message;
  EXPECT_LE(budget->bytes, space.capacity - space.capacity / 10);
  EXPECT_NE(budget->why.find("auto: half of the"), std::string::npos);
  EXPECT_FALSE(automatic_disk(root_ / "missing" / "cache"));
}

TEST_F(StartTest, SamplesOfALoadedIndexAreTheRightOnes) {
  const auto first = read_all(*open(with_disk()));
  const auto second = open(with_disk());
  EXPECT_FALSE(second->stats().listed);
  EXPECT_EQ(read_all(*second), first);
  EXPECT_EQ(first.size(), 60u);
}

TEST_F(StartTest, IndexIsKeptInTheFirstDiskThatWasGiven) {
  LoaderSettings with = with_disk();
  with.disks.push_back({root_ / "other", 1 << 20});
  EXPECT_EQ(open(with)->stats().start.listing.file.parent_path(), root_ / "cache" / "foreload-1");
}

TEST_F(StartTest, NamedIndexIsNotKeptInTheCacheToo) {
  LoaderSettings with = with_disk();
  with.index = root_ / "named.index";
  open(with);
  EXPECT_TRUE(fs::exists(with.index));
  EXPECT_FALSE(fs::exists(index_file_of(with.disks[0].folder, with.dataset, with.extensions)));
}

TEST_F(StartTest, WithoutADiskNothingIsKept) {
  EXPECT_TRUE(open(settings())->stats().start.listing.file.empty());
  EXPECT_TRUE(open(settings())->stats().listed);
}

TEST_F(StartTest, RevalidateListsAgain) {
  open(with_disk());
  fs::remove(file(7));
  LoaderSettings with = with_disk();
  with.revalidate = true;
  EXPECT_EQ(open(with)->index().samples(), 59u);
  EXPECT_EQ(open(with_disk())->index().samples(), 59u);  // and that is kept
}

TEST_F(StartTest, OtherExtensionsHaveAnIndexOfTheirOwn) {
  open(with_disk());
  std::ofstream(root_ / "data" / "c0" / "x.png") << "png";
  LoaderSettings with = with_disk();
  with.extensions = {".png", ".JPG"};
  EXPECT_EQ(open(with)->index().samples(), 61u);
  with.extensions = {".jpg", ".PNG"};
  EXPECT_FALSE(open(with)->stats().listed);  // the same ones
}

TEST_F(StartTest, DamagedIndexInTheCacheIsMadeAgain) {
  const fs::path file = open(with_disk())->stats().start.listing.file;
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_TRUE(open(with_disk())->stats().listed);
  EXPECT_FALSE(open(with_disk())->stats().listed);
}

TEST_F(StartTest, IndexThatCannotBeKeptIsAWarning) {
  const fs::path file = index_file_of(root_ / "cache", settings().dataset, settings().extensions);
  fs::create_directories(file / "in the way");
  const auto loader = open(with_disk());
  ASSERT_EQ(loader->stats().start.warnings.size(), 1u);
  EXPECT_NE(loader->stats().start.warnings[0].find(file.native()), std::string::npos);
  EXPECT_EQ(read_all(*loader).size(), 60u);
}

// A file list as the data set.

TEST_F(StartTest, FileListGivesItsFilesInItsOrder) {
  fs::create_directories(root_ / "lists");
  std::ofstream(root_ / "lists" / "few.txt")
      << "# three of them\n../data/c1/" << name(5) << "\t7\n\n"
      << file(2).native() << "\n../data/c0/" << name(8) << "\t1\n";
  LoaderSettings with = settings();
  with.dataset = root_ / "lists" / "few.txt";
  const auto loader = open(with);
  const auto bytes = read_all(*loader);
  ASSERT_EQ(bytes.size(), 3u);
  EXPECT_EQ(bytes.at(0)[0], 'a' + 5);
  EXPECT_EQ(bytes.at(1)[0], 'a' + 2);
  EXPECT_EQ(bytes.at(2)[0], 'a' + 8);
  EXPECT_EQ(loader->index().label(0), 7u);
  EXPECT_EQ(loader->index().label(1), 0u);
}

TEST_F(StartTest, ChangedListIsListedAgainOnItsOwn) {
  const auto write_list = [&](int last) {
    std::ofstream list(root_ / "data" / "list.txt");
    for (int i = 0; i <= last; ++i) list << "c" << i % 2 << "/" << name(i) << "\n";
  };
  LoaderSettings with = with_disk();
  with.dataset = root_ / "data" / "list.txt";
  write_list(5);
  EXPECT_TRUE(open(with)->stats().listed);
  EXPECT_FALSE(open(with)->stats().listed);
  write_list(9);
  const auto loader = open(with);
  EXPECT_TRUE(loader->stats().listed);
  EXPECT_EQ(loader->index().samples(), 10u);
}

TEST_F(StartTest, IndexAloneIsNoDataSet) {
  LoaderSettings with = settings();
  with.index = root_ / "saved.index";
  open(with);
  with.dataset = with.index;
  with.index.clear();
  EXPECT_NE(refusal(with).find("give the folder"), std::string::npos);
}

// The profile.

TEST_F(StartTest, SourceBeginsWithTheProfilesBestConcurrency) {
  LoaderSettings with = settings();
  with.profile = save({{device(DeviceKind::source, root_, {{1, 1e6}, {5, 5e6}, {32, 4e6}})}},
                      root_ / "p.json");
  EXPECT_EQ(reads_in_flight(with, 5), 5u);
  with.profile.emplace();  // none
  EXPECT_EQ(reads_in_flight(with, 8), 8u);
}

TEST_F(StartTest, DisksBeginWithTheProfilesBestConcurrency) {
  LoaderSettings with = with_disk();
  with.profile = save({{device(DeviceKind::disk, root_, {{1, 1e6}, {3, 5e6}})}}, root_ / "p.json");
  const LoaderStart start = open(with)->stats().start;
  EXPECT_EQ(start.tiers.at(1).first, 3u);
  EXPECT_EQ(start.source_first, 8u);  // no source was measured
  EXPECT_EQ(start.profile, root_ / "p.json");
}

TEST_F(StartTest, RanksBeginWithTheirPartOfTheSourcesBest) {
  LoaderSettings with = settings();
  with.ranks = 4;
  with.profile = save({{device(DeviceKind::source, root_, {{1, 1e6}, {5, 5e6}, {32, 4e6}})}},
                      root_ / "p.json");
  EXPECT_EQ(open(with)->stats().start.source_first, 2u);
}

TEST_F(StartTest, DefaultProfileIsFoundInTheCacheFolder) {
  save({{device(DeviceKind::source, root_, {{1, 1e6}, {6, 5e6}})}},
       root_ / "home" / "foreload" / "profile.json");
  EXPECT_EQ(open(settings())->stats().start.source_first, 6u);
}

TEST_F(StartTest, BrokenDefaultProfileIsOneWarning) {
  fs::create_directories(root_ / "home" / "foreload");
  std::ofstream(root_ / "home" / "foreload" / "profile.json") << "{";
  const LoaderStart start = open(settings())->stats().start;
  ASSERT_EQ(start.warnings.size(), 1u);
  EXPECT_NE(start.warnings[0].find("profile.json"), std::string::npos);
  EXPECT_EQ(start.source_first, 8u);
}

TEST_F(StartTest, BrokenOrMissingNamedProfileIsAnError) {
  LoaderSettings with = settings();
  with.profile = root_ / "p.json";
  EXPECT_NE(refusal(with).find("p.json"), std::string::npos);
  std::ofstream(root_ / "p.json") << "{";
  EXPECT_NE(refusal(with).find("p.json"), std::string::npos);
}

TEST_F(StartTest, DeviceWithTheMostOfThePathIsChosen) {
  const MachineProfile machine{{device(DeviceKind::source, root_, {{1, 1}}),
                                device(DeviceKind::source, root_ / "data" / "c1", {{2, 1}}),
                                device(DeviceKind::source, root_ / "gone", {{3, 1}}),
                                device(DeviceKind::source, "/proc", {{4, 1}}),
                                device(DeviceKind::disk, root_ / "data" / "c1" / "x", {{5, 1}})}};
  const auto best = [&](DeviceKind kind, const fs::path& path) {
    const DeviceProfile* found = measured_at(machine, kind, path);
    return found == nullptr ? 0 : found->curve.points()[0].concurrency;
  };
  EXPECT_EQ(best(DeviceKind::source, root_ / "data" / "c1"), 2);
  EXPECT_EQ(best(DeviceKind::source, root_ / "data" / "c1" / "not" / "yet"), 2);
  EXPECT_EQ(best(DeviceKind::source, root_ / "elsewhere"), 1);
  EXPECT_EQ(best(DeviceKind::source, "/proc/self"), 4);  // another file system
  EXPECT_EQ(best(DeviceKind::disk, root_), 0);           // what was measured is gone
}

// The order of disks.

TEST_F(StartTest, ProfilePutsTheFastestDiskFirst) {
  LoaderSettings with = settings();
  with.disks = {{root_ / "slow", 1 << 20}, {root_ / "fast", 2 << 20}};
  for (const DiskBudget& disk : with.disks) fs::create_directories(disk.folder);
  with.profile = save({{device(DeviceKind::disk, root_ / "slow", {{1, 1e6}}),
                        device(DeviceKind::disk, root_ / "fast", {{1, 1e6}, {8, 9e6}})}},
                      root_ / "p.json");
  const auto loader = open(with);
  const LoaderStart start = loader->stats().start;
  ASSERT_EQ(start.tiers.size(), 3u);
  EXPECT_TRUE(start.tiers[0].folder.empty());
  EXPECT_EQ(start.tiers[1].folder, root_ / "fast");
  EXPECT_EQ(start.tiers[1].bytes, 2u << 20);
  EXPECT_EQ(start.tiers[1].rate, 9e6);
  EXPECT_EQ(start.tiers[1].first, 8u);
  EXPECT_EQ(start.tiers[2].folder, root_ / "slow");
  // Samples go to the first one, since that holds them all.
  EXPECT_EQ(read_all(*loader).size(), 60u);
  const std::string json = to_json(start);
  EXPECT_LT(json.find("/fast\",\"bytes"), json.find("/slow\",\"bytes")) << json;
  EXPECT_NE(json.find(R"("speed_from":"profile")"), std::string::npos) << json;
}

TEST_F(StartTest, DisksAreMeasuredIfTheProfileLacksOne) {
  const std::vector<fs::path> folders{root_ / "a", root_ / "b", root_ / "c"};
  for (const fs::path& folder : folders) fs::create_directories(folder);
  const std::map<fs::path, double> rates{{folders[0], 0}, {folders[1], 5e6}, {folders[2], 5.5e6}};
  const auto order = order_disks(folders, {}, [&](const fs::path& f) { return rates.at(f); });
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0].number, 1u);  // "c" is faster, but not clearly
  EXPECT_EQ(order[1].number, 2u);
  EXPECT_EQ(order[2].number, 0u);  // could not be measured
  EXPECT_EQ(order[0].from, SpeedFrom::measured);
  EXPECT_EQ(order[2].from, SpeedFrom::nobody);
}

TEST_F(StartTest, OneDiskIsNotMeasured) {
  order_disks({root_}, {}, [](const fs::path&) {
    ADD_FAILURE() << "measured";
    return 1.0;
  });
}

TEST_F(StartTest, SeveralDisksAreMeasuredAtStart) {
  LoaderSettings with = settings();
  with.disks = {{root_ / "a", 1 << 20}, {root_ / "b", 1 << 20}};
  const auto loader = open(with);
  for (size_t tier : {1, 2}) {
    EXPECT_GT(loader->stats().start.tiers[tier].rate, 0);
    EXPECT_EQ(loader->stats().start.tiers[tier].speed_from, SpeedFrom::measured);
  }
  // Nothing but the caches is left behind.
  EXPECT_EQ(std::distance(fs::directory_iterator(root_ / "a"), {}), 1);
  with.ranks = 2;  // each rank would measure something else
  EXPECT_EQ(open(with)->stats().start.tiers[1].speed_from, SpeedFrom::nobody);
}

// Memory.

TEST_F(StartTest, MemoryStagingAndIndexTogetherMustFitTheContainer) {
  fs::create_directories(root_ / "sys/fs/cgroup");
  std::ofstream(root_ / "sys/fs/cgroup/memory.max") << (8 << 20);
  LoaderSettings with = settings();
  with.system_root = root_;
  with.memory = 5 << 20;
  with.staging = 2 << 20;
  EXPECT_NE(open(with), nullptr);
  with.staging = 4 << 20;  // each alone would fit
  const std::string message = refusal(with);
  for (const char* part : {"5.0 MiB of memory", "4.0 MiB of staging", "KiB of index", "in all",
                           "memory.max", "8.0 MiB", "lower"})
    EXPECT_NE(message.find(part), std::string::npos) << part << ": " << message;
}

TEST_F(StartTest, NeedsBeyondAllNumbersAreRefusedToo) {
  EXPECT_FALSE(check_memory({UINT64_MAX, UINT64_MAX, 1}, {1 << 20, "the limit"}));
  EXPECT_TRUE(check_memory({UINT64_MAX, UINT64_MAX, 1}, {}));  // nobody set one
}

}  // namespace
}  // namespace foreload
