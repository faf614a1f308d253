// SPDX-License-Identifier: Apache-2.0
#include "foreload/formats/file_list.h"

#include <fstream>

#include <gtest/gtest.h>

#include "foreload/stores/file_store.h"

#include "../temporary_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

Result<Listing> list_files(const fs::path& list, const ListingOptions& options = {}) {
  FORELOAD_TRY(FileList files, read_file_list(list));
  return list_files(std::move(files), options);
}

class FileListTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a/1.jpg", "a/2.jpg", "b/deep/3.jpg", "lists/4.jpg"}) {
      fs::create_directories((root_ / name).parent_path());
      std::ofstream(root_ / name) << name;
    }
  }

  fs::path list(const std::string& text, const std::string& name = "list.txt") const {
    std::ofstream(root_ / name, std::ios::binary) << text;
    return root_ / name;
  }
  static Names names(const std::vector<StoredObject>& files) {
    Names names;
    for (const StoredObject& file : files) names.push_back(file.name);
    return names;
  }
  Names read(const std::string& text, const std::string& name = "list.txt") const {
    const auto files = read_file_list(list(text, name));
    return files ? names(files->files) : Names{files.error().message};
  }
  std::string flaw(const std::string& text) const {
    const auto files = list_files(list(text));
    EXPECT_FALSE(files) << text;
    if (files) return "";
    EXPECT_EQ(files.error().message.find('\n'), std::string::npos);
    EXPECT_NE(files.error().message.find((root_ / "list.txt").native()), std::string::npos);
    return files.error().message;
  }

  const TemporaryFolder temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(FileListTest, KeepsTheOrderOfTheList) {
  EXPECT_EQ(read("b/deep/3.jpg\na/2.jpg\na/1.jpg\n"),
            (Names{"b/deep/3.jpg", "a/2.jpg", "a/1.jpg"}));
}

TEST_F(FileListTest, LeavesOutBlankLinesAndComments) {
  EXPECT_EQ(read("# all\n\na/1.jpg\n  \n#a/2.jpg\r\na/2.jpg\r\n\t\n"),
            (Names{"a/1.jpg", "a/2.jpg"}));
}

TEST_F(FileListTest, LastLineNeedsNoEnd) {
  EXPECT_EQ(read("a/1.jpg\na/2.jpg"), (Names{"a/1.jpg", "a/2.jpg"}));
}

TEST_F(FileListTest, LabelsFollowATab) {
  const auto files = list_files(list("a/1.jpg\t12\na/2.jpg\nb/deep/3.jpg\t4294967295\n"));
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->labels[0], 12u);
  EXPECT_EQ(files->labels[1], 0u);
  EXPECT_EQ(files->labels[2], 4294967295u);
  EXPECT_TRUE(files->classes.empty());
}

TEST_F(FileListTest, FilesHaveTheSizesAndVersionsOfAListing) {
  const auto files = list_files(list("a/1.jpg\na/2.jpg\n"));
  const auto listing = list_folder(FileStore(root_ / "a"));
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_TRUE(listing);
  for (size_t i : {0, 1}) {
    EXPECT_EQ(files->files[i].size, 7u);
    EXPECT_EQ(files->files[i].version, listing->files[i].version);
  }
}

TEST_F(FileListTest, RootIsTheListsFolderIfThatHoldsAll) {
  const auto files = read_file_list(list("a/1.jpg\n" + (root_ / "a/2.jpg").native() + "\n"));
  ASSERT_TRUE(files);
  EXPECT_EQ(files->root, root_);
  EXPECT_EQ(names(files->files), (Names{"a/1.jpg", "a/2.jpg"}));
  EXPECT_EQ(files->lines, (std::vector<size_t>{1, 2}));
}

TEST_F(FileListTest, RootIsTheDeepestFolderThatHoldsAllOtherwise) {
  const auto files = read_file_list(list("../a/1.jpg\n../a/2.jpg\n", "lists/x.txt"));
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->root, root_ / "a");
  EXPECT_EQ(names(files->files), (Names{"1.jpg", "2.jpg"}));
  EXPECT_EQ(read("../a/1.jpg\n../b/deep/3.jpg\n4.jpg\n", "lists/x.txt"),
            (Names{"a/1.jpg", "b/deep/3.jpg", "lists/4.jpg"}));
  EXPECT_EQ(read_file_list(list("/x\n"))->root, "/");
  EXPECT_EQ(read("/x\n/y/z\n"), (Names{"x", "y/z"}));
}

TEST_F(FileListTest, FoldersWithACommonBeginningAreNotTheSame) {
  EXPECT_EQ(read("../lists2/x.jpg\n../lists/y.jpg\n", "lists/x.txt"),
            (Names{"lists2/x.jpg", "lists/y.jpg"}));
}

TEST_F(FileListTest, PathsAreTidied) {
  EXPECT_EQ(read("./a//1.jpg\na/./2.jpg\na/.hidden\n"), (Names{"a/1.jpg", "a/2.jpg", "a/.hidden"}));
}

TEST_F(FileListTest, ListIsFoundByARelativePathToo) {
  list("a/1.jpg\n");
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  const auto files = read_file_list("list.txt");
  fs::current_path(before);
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->root, root_);
}

TEST_F(FileListTest, ErrorsNameTheLine) {
  EXPECT_NE(flaw("a/1.jpg\n\nnowhere.jpg\n").find("line 3: cannot stat file"), std::string::npos);
  EXPECT_NE(flaw("a/1.jpg\ncat\n").find("line 2: cannot stat"), std::string::npos);
  EXPECT_NE(flaw("a/1.jpg\na\n").find("line 2: cannot stat"), std::string::npos) << "a folder";
  EXPECT_NE(flaw("a/1.jpg\tcat\n").find("line 1: 'cat' is not a label"), std::string::npos);
  EXPECT_NE(flaw("a/1.jpg\t-1\n").find("line 1: '-1' is not a label"), std::string::npos);
  EXPECT_NE(flaw("a/1.jpg\t\n").find("line 1: '' is not a label"), std::string::npos);
  EXPECT_NE(flaw("a/1.jpg\t4294967296\n").find("line 1"), std::string::npos);
  EXPECT_NE(flaw("\t1\n").find("line 1: there is no path"), std::string::npos);
  EXPECT_NE(flaw("a/1.jpg\na/../b/1.jpg\n").find("line 2: 'a/../b/1.jpg' has .."),
            std::string::npos);
  EXPECT_NE(flaw("a/\n").find("line 1: 'a/' is a folder"), std::string::npos);
  EXPECT_NE(flaw(std::string("a\0b", 3)).find("line 1: it holds a zero byte"), std::string::npos);
}

TEST_F(FileListTest, FirstBadLineIsNamedWhateverTheTiming) {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "gone" + std::to_string(i) + "\n";
  for (int round = 0; round < 5; ++round) EXPECT_NE(flaw(text).find("line 1: "), std::string::npos);
}

TEST_F(FileListTest, ListWithoutFilesIsRefused) {
  EXPECT_NE(flaw("# nothing\n").find("names no file"), std::string::npos);
  EXPECT_NE(flaw("").find("names no file"), std::string::npos);
}

TEST_F(FileListTest, ListThatIsNotThereIsRefused) {
  const auto files = read_file_list(root_ / "nowhere.txt");
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::unreadable);
  EXPECT_NE(files.error().message.find("nowhere.txt"), std::string::npos);
}

TEST_F(FileListTest, ProgressCancels) {
  ListingOptions options;
  options.progress = [](uint64_t, uint64_t) { return false; };
  const auto files = list_files(list("a/1.jpg\n"), options);
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().kind, ErrorKind::cancelled);
}

TEST_F(FileListTest, ChecksumFollowsTheText) {
  const uint64_t before = read_file_list(list("a/1.jpg\n"))->checksum;
  EXPECT_EQ(read_file_list(list("a/1.jpg\n"))->checksum, before);
  EXPECT_NE(read_file_list(list("a/1.jpg\t1\n"))->checksum, before);
}

TEST_F(FileListTest, CountsOneStatPerFile) {
  ListingOptions options;
  options.operations = std::make_shared<Operations>();
  ASSERT_TRUE(list_files(list("a/1.jpg\na/2.jpg\n"), options));
  EXPECT_EQ(options.operations->totals(Operation::stat).count, 2u);
}

TEST_F(FileListTest, FilesMayBeGivenWithoutAText) {
  const std::string odd = (root_ / "a/tab\tand\nline.jpg").native();
  std::ofstream(odd) << "odd";
  const auto files = file_list_of({odd, (root_ / "a/1.jpg").native(), odd});
  ASSERT_TRUE(files) << files.error().message;
  EXPECT_EQ(files->root, root_ / "a");
  EXPECT_EQ(names(files->files), (Names{"tab\tand\nline.jpg", "1.jpg", "tab\tand\nline.jpg"}));
  const auto listed = list_files(*files, {});
  ASSERT_TRUE(listed) << listed.error().message;
  EXPECT_EQ(listed->files.at(0).size, 3u);
}

TEST_F(FileListTest, AGivenFileThatIsNotThereIsNamed) {
  const auto files = file_list_of({(root_ / "a/1.jpg").native(), (root_ / "a/none.jpg").native()});
  ASSERT_TRUE(files);
  const auto listed = list_files(*files, {});
  ASSERT_FALSE(listed);
  EXPECT_NE(listed.error().message.find("cannot use file 1 of the data set: cannot stat file " +
                                        (root_ / "a/none.jpg").native()),
            std::string::npos)
      << listed.error().message;
  EXPECT_FALSE(file_list_of({}));
  EXPECT_FALSE(file_list_of({""}));
}

TEST(FileListOfRanges, SaysWhatSamplesAreMadeOfAndRefusesOtherFiles) {
  const std::vector<std::string> paths{"/a/x", "/a/y"};
  const auto whole = file_list_of(paths);
  const auto ranges = file_list_of(paths, {{{0, 5, 7}, {1}}, {{1, 1, 2}}});
  ASSERT_TRUE(ranges);
  ASSERT_EQ(ranges->samples.size(), 2U);
  EXPECT_EQ(ranges->samples[0][1].length, FileRange::kToTheEnd);
  EXPECT_NE(ranges->checksum, whole->checksum);
  const auto others = file_list_of(paths, {{{0, 5, 8}, {1}}, {{1, 1, 2}}});
  EXPECT_NE(ranges->checksum, others->checksum);
  const auto named = file_list_of(paths, {{{0, 5, 7}, {1}}}, {"image", "mask"});
  const auto renamed = file_list_of(paths, {{{0, 5, 7}, {1}}}, {"image", "label"});
  ASSERT_TRUE(named && renamed);
  EXPECT_NE(named->checksum, renamed->checksum);
  EXPECT_FALSE(file_list_of(paths, {{{0}, {1}}, {{1}}}, {"image", "mask"}));
  const auto wrong = file_list_of(paths, {{{2}}});
  ASSERT_FALSE(wrong);
  EXPECT_NE(wrong.error().message.find("made of file 2, but 2 files are given"), std::string::npos);
}

}  // namespace
}  // namespace foreload
