// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/listing.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include "foreload/formats/format.h"
#include "foreload/stores/file_store.h"

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class ListingTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = folder_ / "set";
    fs::create_directory(root_);
  }

  void write(const fs::path& name, size_t size = 1) const {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << std::string(size, 'x');
  }

  const TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();  // room for things outside the root
  fs::path root_;
};

Result<Listing> list_folder(const fs::path& root, const ListingOptions& options = {}) {
  return list_folder(FileStore(root), options);
}

Result<std::optional<std::string>> changed_folder(const fs::path& root,
                                                  const std::vector<StoredFolder>& folders,
                                                  const ListingOptions& options = {}) {
  return FileStore(root).changed(folders, options.call());
}

Names names(const Result<Listing>& listing) {
  Names list;
  if (!listing) return {listing.error().message};
  for (const StoredObject& file : listing->files) list.push_back(file.name);
  return list;
}

void expect_error(const Result<Listing>& listing, ErrorKind kind, const std::string& words) {
  ASSERT_FALSE(listing);
  EXPECT_EQ(listing.error().kind, kind);
  EXPECT_NE(listing.error().message.find(words), std::string::npos) << listing.error().message;
}

TEST_F(ListingTest, SortedSubFoldersAreTheClasses) {
  write("dog/1.jpg");
  write("cat/1.jpg");
  write("Zebra/1.jpg");
  const auto listing = list_folder(root_);
  ASSERT_TRUE(listing);
  EXPECT_EQ(listing->classes, (Names{"Zebra", "cat", "dog"}));
}

TEST_F(ListingTest, LabelsFollowTheClasses) {
  write("dog/1.jpg");
  write("cat/1.jpg");
  write("cat/deep/2.jpg");
  const auto listing = list_folder(root_);
  ASSERT_EQ(names(listing), (Names{"cat/1.jpg", "cat/deep/2.jpg", "dog/1.jpg"}));
  EXPECT_EQ(listing->labels[0], 0u);
  EXPECT_EQ(listing->labels[1], 0u);
  EXPECT_EQ(listing->labels[2], 1u);
}

TEST_F(ListingTest, FilesOfAFolderComeBeforeItsSubFolders) {
  write("c/a/1.jpg");
  write("c/z.jpg");
  write("c/b.jpg");
  EXPECT_EQ(names(list_folder(root_)), (Names{"c/b.jpg", "c/z.jpg", "c/a/1.jpg"}));
}

TEST_F(ListingTest, FoldersAreSortedByTheirFullPaths) {
  write("c/a/b/1.jpg");
  write("c/a-b/1.jpg");
  write("c/a/1.jpg");
  write("c/a0/1.jpg");
  EXPECT_EQ(names(list_folder(root_)),
            (Names{"c/a/1.jpg", "c/a-b/1.jpg", "c/a/b/1.jpg", "c/a0/1.jpg"}));
}

TEST_F(ListingTest, ClassesAreNotMixedByTheirPaths) {
  write("a/x/1.jpg");
  write("a-b/1.jpg");
  EXPECT_EQ(names(list_folder(root_)), (Names{"a/x/1.jpg", "a-b/1.jpg"}));
}

TEST_F(ListingTest, NamesAreSortedAsBytes) {
  write("c/\xc3\xa9.jpg");
  write("c/z.jpg");
  write("c/A.jpg");
  EXPECT_EQ(names(list_folder(root_)), (Names{"c/A.jpg", "c/z.jpg", "c/\xc3\xa9.jpg"}));
}

TEST_F(ListingTest, ExtensionsIgnoreCase) {
  write("c/1.JPEG");
  write("c/2.Jpg");
  write("c/3.txt");
  write("c/4.webP");
  write("c/jpg");
  EXPECT_EQ(names(list_folder(root_)), (Names{"c/1.JPEG", "c/2.Jpg", "c/4.webP"}));
}

TEST_F(ListingTest, WantedExtensionsIgnoreCaseToo) {
  write("c/1.npy");
  ListingOptions options;
  options.extensions = {".NPY"};
  EXPECT_EQ(names(list_folder(root_, options)), (Names{"c/1.npy"}));
}

TEST_F(ListingTest, NoExtensionsMeansAllFiles) {
  write("c/1");
  write("c/2.txt");
  ListingOptions options;
  options.extensions.clear();
  EXPECT_EQ(names(list_folder(root_, options)), (Names{"c/1", "c/2.txt"}));
}

TEST_F(ListingTest, HiddenFoldersAndFilesCount) {
  write(".h/.jpg");
  EXPECT_EQ(names(list_folder(root_)), (Names{".h/.jpg"}));
}

TEST_F(ListingTest, FilesBesideTheClassesAreIgnored) {
  write("c/1.jpg");
  write("cover.jpg");
  EXPECT_EQ(names(list_folder(root_)), (Names{"c/1.jpg"}));
}

TEST_F(ListingTest, LinksAreFollowed) {
  fs::create_directories(folder_ / "outside" / "deep");
  std::ofstream(folder_ / "outside" / "deep" / "1.jpg") << "12345";
  fs::create_directory(root_ / "c");
  fs::create_directory_symlink(folder_ / "outside", root_ / "class-link");
  fs::create_directory_symlink(folder_ / "outside" / "deep", root_ / "c" / "folder-link");
  fs::create_symlink(folder_ / "outside" / "deep" / "1.jpg", root_ / "c" / "file-link.jpg");
  const auto listing = list_folder(root_);
  ASSERT_EQ(names(listing),
            (Names{"c/file-link.jpg", "c/folder-link/1.jpg", "class-link/deep/1.jpg"}));
  EXPECT_EQ(listing->files[0].size, 5u);
}

TEST_F(ListingTest, FolderLinkedTwiceIsListedTwice) {
  write("c/1.jpg");
  fs::create_directory_symlink(root_ / "c", root_ / "d");
  EXPECT_EQ(names(list_folder(root_)), (Names{"c/1.jpg", "d/1.jpg"}));
}

TEST_F(ListingTest, LinkToAFolderAboveIsRefused) {
  write("c/deep/1.jpg");
  fs::create_directory_symlink("..", root_ / "c" / "deep" / "loop");
  expect_error(list_folder(root_), ErrorKind::invalid, "c/deep/loop: it leads back to");
}

TEST_F(ListingTest, LinkToTheRootIsRefused) {
  write("c/1.jpg");
  fs::create_directory_symlink(".", root_ / "loop");
  expect_error(list_folder(root_), ErrorKind::invalid, "set/loop: it leads back to");
}

// Listing once failed for one bad link among millions of files, whatever on_error said.
TEST_F(ListingTest, LinksThatLeadNowhereAreSamplesThatCannotBeRead) {
  write("c/1.jpg");
  fs::create_symlink("nowhere", root_ / "c" / "0.jpg");
  fs::create_symlink("2.jpg", root_ / "c" / "2.jpg");
  fs::create_symlink("1.jpg/3.jpg", root_ / "c" / "3.jpg");
  const auto listing = list_folder(root_);
  ASSERT_EQ(names(listing), (Names{"c/0.jpg", "c/1.jpg", "c/2.jpg", "c/3.jpg"}));
  for (const size_t i : {0u, 2u, 3u}) {
    EXPECT_EQ(listing->files[i].version, kLinkToNothing) << i;
    EXPECT_EQ(listing->files[i].size, 0u) << i;
  }
}

TEST_F(ListingTest, PipesAndSocketsAreSamplesThatCannotBeRead) {
  write("c/1.jpg");
  ASSERT_EQ(::mkfifo((root_ / "c" / "0.jpg").c_str(), 0600), 0);
  fs::create_symlink("0.jpg", root_ / "c" / "2.jpg");
  ASSERT_EQ(::mknod((root_ / "c" / "3.jpg").c_str(), S_IFSOCK | 0600, 0), 0);
  const auto listing = list_folder(root_);
  ASSERT_EQ(names(listing), (Names{"c/0.jpg", "c/1.jpg", "c/2.jpg", "c/3.jpg"}));
  for (const size_t i : {0u, 2u, 3u}) EXPECT_EQ(listing->files[i].version, kNotAFile) << i;
}

TEST_F(ListingTest, LinkToNothingWithAnotherExtensionIsSkipped) {
  write("c/1.jpg");
  fs::create_symlink("nowhere", root_ / "c" / "notes.txt");
  EXPECT_EQ(names(list_folder(root_)), (Names{"c/1.jpg"}));
}

TEST_F(ListingTest, FirstOfSeveralErrorsIsReported) {
  for (int i = 0; i < 100; ++i) {
    const fs::path folder = root_ / ("c" + std::to_string(100 + i));
    fs::create_directory(folder);
    fs::create_directory_symlink(".", folder / "loop");
  }
  for (int repeat = 0; repeat < 20; ++repeat) {
    expect_error(list_folder(root_), ErrorKind::invalid, "set/c100/loop");
  }
}

TEST_F(ListingTest, UnreadableFolderIsAnError) {
  write("c/1.jpg");
  write("c/closed/2.jpg");
  ASSERT_EQ(::chmod((root_ / "c/closed").c_str(), 0), 0);
  const bool privileged = ::access((root_ / "c/closed").c_str(), R_OK) == 0;
  const auto listing = list_folder(root_);
  ASSERT_EQ(::chmod((root_ / "c/closed").c_str(), 0700), 0);
  if (privileged) GTEST_SKIP() << "permissions do not bind this user";
  expect_error(listing, ErrorKind::unreadable, "set/c/closed: Permission denied");
}

TEST_F(ListingTest, ClassWithoutFilesIsRefused) {
  write("a/1.jpg");
  write("b/notes.txt");
  fs::create_directory(root_ / "c");
  expect_error(list_folder(root_), ErrorKind::invalid,
               "its class folder b (like 1 others) holds no files that end in .jpg, .jpeg");
}

TEST_F(ListingTest, FlatFolderHasNoClasses) {
  write("2.jpg");
  write("1.jpg");
  write("notes.txt");
  const auto listing = list_folder(root_);
  ASSERT_EQ(names(listing), (Names{"1.jpg", "2.jpg"}));
  EXPECT_TRUE(listing->classes.empty());
  EXPECT_EQ(listing->labels[1], 0u);
}

TEST_F(ListingTest, RootMayEndInASlash) {
  write("c/1.jpg");
  EXPECT_EQ(names(list_folder(root_.string() + "/")), (Names{"c/1.jpg"}));
}

TEST_F(ListingTest, NoMatchingFileTellsHowManyWereSkipped) {
  write("c/1.txt");
  write("c/2.txt");
  expect_error(list_folder(root_), ErrorKind::invalid, "but 2 of ");
}

TEST_F(ListingTest, EmptyRootIsRefused) {
  expect_error(list_folder(root_), ErrorKind::invalid, root_.string());
}

TEST_F(ListingTest, MissingRootIsUnreadable) {
  expect_error(list_folder(folder_ / "missing"), ErrorKind::unreadable,
               "missing: No such file or directory");
}

TEST_F(ListingTest, RootThatIsAFileIsUnreadable) {
  write("1.jpg");
  expect_error(list_folder(root_ / "1.jpg"), ErrorKind::unreadable, "Not a directory");
}

TEST_F(ListingTest, SizesAreThoseOfTheFiles) {
  write("c/1.jpg", 0);
  write("c/2.jpg", 12'345);
  const auto listing = list_folder(root_);
  ASSERT_TRUE(listing);
  EXPECT_EQ(listing->files[0].size, 0u);
  EXPECT_EQ(listing->files[1].size, 12'345u);
}

TEST_F(ListingTest, VersionStaysWhileTheFileDoes) {
  write("c/1.jpg");
  EXPECT_EQ(list_folder(root_)->files[0].version, list_folder(root_)->files[0].version);
}

TEST_F(ListingTest, VersionChangesWithTheTimeOfChange) {
  write("c/1.jpg");
  const uint64_t before = list_folder(root_)->files[0].version;
  const fs::path file = root_ / "c/1.jpg";
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::nanoseconds(1000));
  EXPECT_NE(list_folder(root_)->files[0].version, before);
}

TEST_F(ListingTest, VersionChangesWithTheSize) {
  write("c/1.jpg", 1);
  const uint64_t before = list_folder(root_)->files[0].version;
  const auto time = fs::last_write_time(root_ / "c/1.jpg");
  write("c/1.jpg", 2);
  fs::last_write_time(root_ / "c/1.jpg", time);
  EXPECT_NE(list_folder(root_)->files[0].version, before);
}

TEST_F(ListingTest, AnyNumberOfThreadsGivesTheSameListing) {
  for (int i = 0; i < 300; ++i) {
    write(fs::path("c" + std::to_string(i % 7)) / ("d" + std::to_string(i % 11)) /
          (std::to_string(i) + ".jpg"));
  }
  ListingOptions options;
  options.threads = 1;
  const auto one = list_folder(root_, options);
  ASSERT_TRUE(one);
  ASSERT_EQ(one->files.size(), 300u);
  for (unsigned threads : {0u, 2u, 16u, 1000u}) {
    options.threads = threads;
    const auto many = list_folder(root_, options);
    ASSERT_EQ(names(many), names(one));
    for (size_t i = 0; i < one->files.size(); ++i) {
      ASSERT_EQ(many->files[i].version, one->files[i].version);
      ASSERT_EQ(many->labels[i], one->labels[i]);
    }
  }
}

TEST_F(ListingTest, ProgressEndsWithAllFiles) {
  write("c/1.jpg");
  write("c/2.jpg");
  std::pair<uint64_t, uint64_t> last;
  ListingOptions options;
  options.progress = [&last](uint64_t done, uint64_t total) {
    last = {done, total};
    return true;
  };
  ASSERT_TRUE(list_folder(root_, options));
  EXPECT_EQ(last, (std::pair<uint64_t, uint64_t>{2, 2}));
}

TEST_F(ListingTest, ProgressComesFromTheCallingThread) {
  write("c/1.jpg");
  bool same = true;
  ListingOptions options;
  options.progress = [&same, caller = std::this_thread::get_id()](uint64_t, uint64_t) {
    same = same && std::this_thread::get_id() == caller;
    return true;
  };
  ASSERT_TRUE(list_folder(root_, options));
  EXPECT_TRUE(same);
}

TEST_F(ListingTest, CancelWhileListing) {
  write("c/1.jpg");
  ListingOptions options;
  options.progress = [](uint64_t, uint64_t) { return false; };
  expect_error(list_folder(root_, options), ErrorKind::cancelled, root_.string());
}

TEST_F(ListingTest, CancelWhileMeasuring) {
  write("c/1.jpg");
  ListingOptions options;
  options.progress = [](uint64_t, uint64_t total) { return total == 0; };
  expect_error(list_folder(root_, options), ErrorKind::cancelled, root_.string());
}

TEST_F(ListingTest, ProgressThatThrowsEndsTheThreads) {
  write("c/1.jpg");
  ListingOptions options;
  options.progress = [](uint64_t, uint64_t total) -> bool {
    if (total > 0) throw std::runtime_error("interrupted");
    return true;
  };
  EXPECT_THROW((void)list_folder(root_, options), std::runtime_error);
}

TEST_F(ListingTest, CountsFoldersListedAndFilesStatted) {
  write("cat/1.jpg");
  write("cat/2.jpg");
  write("dog/3.jpg");
  ListingOptions options;
  options.operations = std::make_shared<Operations>();
  ASSERT_TRUE(list_folder(root_, options));
  EXPECT_EQ(options.operations->totals(Operation::list).count, 3u);
  EXPECT_EQ(options.operations->totals(Operation::stat).count, 3u);
}

// What has changed since.

// Times of folders are as coarse as the system's clock ticks.
void touch(const fs::path& folder) {
  fs::last_write_time(folder, fs::last_write_time(folder) + std::chrono::seconds(1));
}

TEST_F(ListingTest, FoldersAreListedWithTheirTimes) {
  write("b/2.jpg");
  write("a/x/1.jpg");
  const auto listing = list_folder(root_);
  ASSERT_TRUE(listing);
  Names folders;
  for (const StoredFolder& folder : listing->folders) folders.push_back(folder.name);
  EXPECT_EQ(folders, (Names{"", "a", "b", "a/x"}));
  EXPECT_EQ(*changed_folder(root_, listing->folders), std::nullopt);
}

TEST_F(ListingTest, AChangedFolderIsFound) {
  write("b/2.jpg");
  write("a/x/1.jpg");
  const auto folders = list_folder(root_)->folders;
  touch(root_ / "a" / "x");
  EXPECT_EQ(*changed_folder(root_, folders), "a/x");
  touch(root_ / "b");
  EXPECT_EQ(*changed_folder(root_, folders), "b");  // the first of them
}

TEST_F(ListingTest, AFolderThatIsGoneHasChanged) {
  write("a/1.jpg");
  write("b/2.jpg");
  auto folders = list_folder(root_)->folders;
  fs::remove_all(root_ / "b");
  folders.erase(folders.begin());  // the root, which has changed as well
  EXPECT_EQ(*changed_folder(root_, folders), "b");
}

TEST_F(ListingTest, WithoutItsRootNobodyKnowsWhatChanged) {
  write("a/1.jpg");
  const auto folders = list_folder(root_)->folders;
  fs::remove_all(root_);
  const auto changed = changed_folder(root_, folders);
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().kind, ErrorKind::unreadable);
}

TEST_F(ListingTest, OfVeryManyFoldersTenThousandAreLookedAt) {
  std::vector<StoredFolder> folders(30'000);  // all the root, at no time of its
  ListingOptions options;
  options.operations = std::make_shared<Operations>();
  EXPECT_TRUE(changed_folder(root_, folders, options));
  EXPECT_EQ(options.operations->totals(Operation::stat).count, 10'000u);
}

// What is no data set.

TEST_F(ListingTest, ArchivesAreNamedAsSuch) {
  write("shard-0.tar");
  write("shard-1.tar");
  expect_error(list_folder(root_), ErrorKind::invalid, "its files are tar archives (2 of .tar)");
}

TEST_F(ListingTest, AnEmptyFolderIsNamedAsSuch) {
  expect_error(list_folder(root_), ErrorKind::invalid, "there is no file in it");
}

TEST_F(ListingTest, OtherFilesAreNamedByTheirExtensions) {
  write("a/1.txt");
  write("a/2.txt");
  write("a/3.npy");
  expect_error(list_folder(root_), ErrorKind::invalid,
               "but 2 of .txt, 1 of .npy; check the path, or say which files are samples "
               "(--extensions, extensions=)");
}

TEST_F(ListingTest, FilesBesideFoldersWithoutAnyAreToldWhy) {
  write("1.jpg");
  write("notes/readme.txt");
  expect_error(list_folder(root_), ErrorKind::invalid,
               "the 1 in the folder itself count only where it has no sub-folders");
}

TEST_F(ListingTest, AnAddressIsNamedAsSuch) {
  const auto index = open_dataset({"s3://bucket/train"}, {});
  ASSERT_FALSE(index);
  EXPECT_EQ(index.error().kind, ErrorKind::invalid);
  EXPECT_NE(index.error().message.find("it is an S3 bucket"), std::string::npos);
}

}  // namespace
}  // namespace foreload
