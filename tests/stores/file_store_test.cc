// SPDX-License-Identifier: Apache-2.0
#include "foreload/stores/file_store.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "../base/without_privilege.h"
#include "answers.h"
#include "test_folder.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class FolderTest : public testing::TestWithParam<IoEngine> {
 protected:
  void SetUp() override {
    if (!open({}, 1)) GTEST_SKIP() << "the system does not have this engine";
  }

  // Whether the engine is there. Files are written by the tests.
  bool open(TestObjects objects, unsigned most_in_flight = 64) {
    SourceSettings settings;
    settings.objects = std::make_shared<TestCatalog>(std::move(objects));
    settings.engine = GetParam();
    settings.most_in_flight = most_in_flight;
    settings.drop_page_cache = drop_page_cache_;
    settings.operations = operations_;
    settings.waits_for_pipes = waits_for_pipes_;
    settings.open_folders = open_folders_;
    auto source = FileStore(folder_.path()).open(std::move(settings), answers_.callback());
    if (!source) return false;
    source_ = std::move(*source);
    return true;
  }
  void read(uint64_t id, const Extent& extent, const Buffer& buffer,
            SteadyTime deadline = SteadyTime::max()) {
    const SourceRead read{id, extent, buffer.destination(), deadline};
    source_->submit({&read, 1});
  }
  // The version that asking for it gives.
  uint64_t listed_version(const std::string& name) const {
    StoredObject object{name};
    const auto refuse = [](size_t, const std::string& why) {
      return Error{ErrorKind::unreadable, why};
    };
    if (!FileStore(folder_.path()).stat({&object, 1}, {}, refuse)) return 0;
    return object.version;
  }
  // Reads all of one file, listed as it is now, after `change` was made to it.
  SourceAnswer read_after(const std::function<void(const fs::path&)>& change) {
    folder_.write("file", "0123456789");
    const uint64_t version = listed_version("file");
    EXPECT_NE(version, 0);
    change(folder_.path() / "file");
    EXPECT_TRUE(open({{"file", "0123456789", false, false, version}}));
    const Buffer buffer(10);
    read(1, {0, 0, 10}, buffer);
    return answers_.of(1);
  }

  Answers answers_;
  TestFolder folder_;
  bool drop_page_cache_ = false;
  bool waits_for_pipes_ = false;
  std::optional<unsigned> open_folders_;
  std::shared_ptr<Operations> operations_ = std::make_shared<Operations>();
  std::unique_ptr<Source> source_;
};

constexpr const char* kChanged = "it changed since it was listed (size or modification time)";

TEST_P(FolderTest, UnchangedFileIsRead) {
  EXPECT_EQ(read_after([](const fs::path&) {}).fault, Fault::none);
}

TEST_P(FolderTest, ListedPipeIsRefusedWithoutOpeningIt) {
  folder_.add({"pipe", "", true});
  ASSERT_EQ(listed_version("pipe"), kNotAFile);
  ASSERT_TRUE(open({{"pipe", "", true, false, kNotAFile}}));
  read(1, {0, 0, 0}, Buffer(0));
  const SourceAnswer answer = answers_.of(1);
  EXPECT_EQ(answer.fault, Fault::permanent);
  EXPECT_EQ(answer.what, "it is a named pipe, a socket or a device, not a file");
}

// It was waited for until the deadline of the read.
TEST_P(FolderTest, FileThatBecameAPipeIsRefused) {
  folder_.add({"pipe", "", true});
  ASSERT_TRUE(open({{"pipe", "0123456789"}}));
  const Buffer buffer(10);
  read(1, {0, 0, 10}, buffer, std::chrono::steady_clock::now() + std::chrono::seconds(20));
  const SourceAnswer answer = answers_.of(1);
  EXPECT_EQ(answer.fault, Fault::permanent);
  EXPECT_EQ(answer.what, "it is a named pipe, a socket or a device, not a file");
}

TEST_P(FolderTest, ListedLinkToNothingIsRefused) {
  fs::create_symlink("nowhere", folder_.path() / "link");
  ASSERT_EQ(listed_version("link"), kLinkToNothing);
  ASSERT_TRUE(open({{"link", "", false, false, kLinkToNothing}}));
  read(1, {0, 0, 0}, Buffer(0));
  const SourceAnswer answer = answers_.of(1);
  EXPECT_EQ(answer.fault, Fault::permanent);
  EXPECT_EQ(answer.what, "it was a link to nothing when it was listed");
}

TEST_P(FolderTest, FileThatGrewHasChanged) {
  const SourceAnswer answer =
      read_after([](const fs::path& file) { std::ofstream(file, std::ios::app) << "more"; });
  EXPECT_EQ(answer.fault, Fault::changed);
  EXPECT_EQ(answer.what, kChanged);
}

TEST_P(FolderTest, FileThatShrankHasChanged) {
  EXPECT_EQ(read_after([](const fs::path& file) { fs::resize_file(file, 3); }).fault,
            Fault::changed);
}

TEST_P(FolderTest, FileWithAnotherTimeHasChanged) {
  EXPECT_EQ(read_after([](const fs::path& file) {
              fs::last_write_time(file, fs::last_write_time(file) + std::chrono::nanoseconds(1));
            }).fault,
            Fault::changed);
}

TEST_P(FolderTest, FileThatWasReplacedHasChanged) {
  EXPECT_EQ(read_after([](const fs::path& file) {
              const fs::path other = file.string() + ".new";
              std::ofstream(other) << "abcdefghij";
              fs::last_write_time(other, fs::last_write_time(file) + std::chrono::seconds(1));
              fs::rename(other, file);
            }).fault,
            Fault::changed);
}

TEST_P(FolderTest, ShortFileOfUnknownVersionIsPermanent) {
  folder_.write("file", "012");
  ASSERT_TRUE(open({{"file", "0123456789"}}));
  const Buffer buffer(10);
  read(1, {0, 2, 8}, buffer);
  EXPECT_EQ(answers_.of(1).fault, Fault::permanent);
  EXPECT_EQ(answers_.of(1).what, "it has 3 bytes, 10 were expected");
}

TEST_P(FolderTest, MissingFileNamesWhatTheSystemSaid) {
  ASSERT_TRUE(open({{"no/such/file", "x"}}));
  const Buffer buffer(1);
  read(1, {0, 0, 1}, buffer);
  const SourceAnswer answer = answers_.of(1);
  EXPECT_EQ(answer.fault, Fault::permanent);
  EXPECT_EQ(answer.error_number, ENOENT);
  EXPECT_EQ(answer.what, "No such file or directory while opening");
}

TEST_P(FolderTest, FileWithoutPermissionIsPermanent) {
  const WithoutPrivilege ordinary;
  folder_.write("file", "x");
  fs::permissions(folder_.path() / "file", fs::perms::none);
  ASSERT_TRUE(open({{"file", "x"}}));
  const Buffer buffer(1);
  read(1, {0, 0, 1}, buffer);
  EXPECT_EQ(answers_.of(1).fault, Fault::permanent);
  EXPECT_EQ(answers_.of(1).error_number, EACCES);
}

TEST_P(FolderTest, FolderInPlaceOfAFileIsPermanent) {
  fs::create_directory(folder_.path() / "file");
  ASSERT_TRUE(open({{"file", "x"}}));
  const Buffer buffer(1);
  read(1, {0, 0, 1}, buffer);
  EXPECT_EQ(answers_.of(1).fault, Fault::permanent);
}

TEST_P(FolderTest, NamesStayInTheFolder) {
  folder_.write("in/file", "x");
  const std::string outside = (folder_.path() / "in/file").string();
  ASSERT_TRUE(open({{outside, "x"},
                    {"in/../in/file", "x"},
                    {"..", "x"},
                    {"", "x"},
                    {std::string("in/file\0", 8), "x"},
                    {"in/..file", "x"},
                    {"in/file", "x"}}));
  folder_.write("in/..file", "x");
  const Buffer buffer(1);
  for (uint32_t i = 0; i < 7; ++i) {
    read(i, {i, 0, 1}, buffer);
    EXPECT_EQ(answers_.of(i).fault, i < 5 ? Fault::permanent : Fault::none) << i;
  }
}

TEST_P(FolderTest, NamesOfStrangeBytes) {
  TestObjects objects;
  for (const std::string name :
       {" ", "\n", "\xff\xfe", "a\\b", "%s{}", "...", "\xe2\x82\xac.jpg"}) {
    objects.push_back({name, "content of " + name});
    folder_.write(name, objects.back().bytes);
  }
  ASSERT_TRUE(open(objects));
  for (uint32_t i = 0; i < objects.size(); ++i) {
    const Buffer buffer(objects[i].bytes.size());
    read(i, {i, 0, objects[i].bytes.size()}, buffer);
    EXPECT_EQ(answers_.of(i).fault, Fault::none) << i;
    EXPECT_EQ(buffer.text(), objects[i].bytes);
  }
}

TEST_P(FolderTest, HungFilesDoNotStopOthers) {
  waits_for_pipes_ = true;
  constexpr uint32_t kHung = 20;
  TestObjects objects{{"good", test_bytes(1, 5000)}};
  for (uint32_t i = 0; i < kHung; ++i) objects.push_back({"hangs" + std::to_string(i), "x", true});
  for (const TestObject& object : objects) folder_.add(object);
  ASSERT_TRUE(open(objects, 32));
  std::vector<Buffer> hanging(kHung, Buffer(0));
  const SteadyTime deadline = Clock::now() + std::chrono::milliseconds(50);
  for (uint32_t i = 0; i < kHung; ++i) {
    hanging[i] = Buffer(1);
    read(100 + i, {1 + i, 0, 1}, hanging[i], deadline);
  }
  // In flight while the others hang, and after they were given up.
  for (const uint64_t id : {1, 2}) {
    const Buffer good(5000);
    read(id, {0, 0, 5000}, good);
    EXPECT_EQ(answers_.of(id).fault, Fault::none);
    EXPECT_EQ(good.text(), objects[0].bytes);
    for (uint32_t i = 0; i < kHung; ++i) EXPECT_EQ(answers_.of(100 + i).fault, Fault::deadline);
  }
  const SteadyTime end = Clock::now();
  source_.reset();
  EXPECT_LT(Clock::now() - end, std::chrono::seconds(1));
  for (const Buffer& buffer : hanging) EXPECT_EQ(buffer.text(), "#");
}

TEST_P(FolderTest, MoreHungFilesThanInFlight) {
  waits_for_pipes_ = true;
  TestObjects objects{{"good", "x"}};
  for (uint32_t i = 0; i < 8; ++i) objects.push_back({"hangs" + std::to_string(i), "x", true});
  for (const TestObject& object : objects) folder_.add(object);
  ASSERT_TRUE(open(objects, 2));
  for (uint32_t i = 1; i <= 8; ++i) {
    read(i, {i, 0, 1}, Buffer(1), Clock::now() + std::chrono::milliseconds(20 * i));
  }
  for (uint32_t i = 1; i <= 8; ++i) EXPECT_EQ(answers_.of(i).fault, Fault::deadline) << i;
  // Writers let the stuck opens go on, and reading with them.
  for (uint32_t i = 1; i <= 8; ++i) {
    const int fd = ::open((folder_.path() / objects[i].name).c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    read(100 + i, {0, 0, 1}, Buffer(1));
    EXPECT_LE(source_->abandoned(), 3);
    ::close(fd);
  }
  for (uint32_t i = 1; i <= 8; ++i) EXPECT_EQ(answers_.of(100 + i).fault, Fault::none) << i;
}

TEST_P(FolderTest, HungReadHoldsItsMemory) {
  waits_for_pipes_ = true;
  folder_.add({"hangs", "x", true});
  ASSERT_TRUE(open({{"hangs", "x"}}));
  const Buffer buffer(1);
  // On a busy machine the deadline may pass before a thread has come to the read.
  uint64_t id = 0;
  for (std::chrono::milliseconds wait(10); source_->abandoned() == 0 && wait < kPatience;
       wait *= 2) {
    read(++id, {0, 0, 1}, buffer, Clock::now() + wait);
    EXPECT_EQ(answers_.of(id).fault, Fault::deadline);
    // io_uring interrupts a FIFO's open; a thread in it is stuck until somebody writes.
    if (GetParam() != IoEngine::threads) return;
  }
  EXPECT_EQ(source_->abandoned(), 1);
  EXPECT_EQ(buffer.holders(), 2);
  const fs::path fifo = folder_.path() / "hangs";
  source_.reset();
  EXPECT_EQ(buffer.holders(), 2);
  const int writer = ::open(fifo.c_str(), O_RDWR | O_CLOEXEC);
  const SteadyTime give_up = Clock::now() + kPatience;
  while (buffer.holders() > 1 && Clock::now() < give_up) std::this_thread::yield();
  EXPECT_EQ(buffer.holders(), 1);
  ::close(writer);
}

// A page that stays away until let in: whoever writes to it first, the kernel included, waits in a
// way that nothing interrupts, like a read from a file server that is gone.
class LatePage {
 public:
  LatePage() {
    uffd_ = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
    if (uffd_ < 0) return;
    page_ = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uffdio_api api{UFFD_API, 0, 0};
    uffdio_register range{range_of_page(), UFFDIO_REGISTER_MODE_MISSING, 0};
    usable_ = ::ioctl(uffd_, UFFDIO_API, &api) == 0 && ::ioctl(uffd_, UFFDIO_REGISTER, &range) == 0;
  }
  ~LatePage() {
    if (uffd_ >= 0) ::close(uffd_);
    if (page_ != nullptr) ::munmap(page_, kSize);
  }
  LatePage(const LatePage&) = delete;
  LatePage& operator=(const LatePage&) = delete;

  bool usable() const { return usable_; }
  std::byte* data() const { return static_cast<std::byte*>(page_); }
  bool wait_until_somebody_waits() const {
    pollfd poll{uffd_, POLLIN, 0};
    return ::poll(&poll, 1, static_cast<int>(std::chrono::milliseconds(kPatience).count())) == 1;
  }
  void let_in() const {
    uffdio_zeropage zero{range_of_page(), 0, 0};
    ::ioctl(uffd_, UFFDIO_ZEROPAGE, &zero);
  }

 private:
  static constexpr size_t kSize = 4096;
  uffdio_range range_of_page() const { return {reinterpret_cast<uintptr_t>(page_), kSize}; }

  int uffd_ = -1;
  void* page_ = nullptr;
  bool usable_ = false;
};

TEST_P(FolderTest, EndsWhileTheSystemKeepsARead) {
  const auto page = std::make_shared<LatePage>();
  if (!page->usable()) GTEST_SKIP() << "no userfaultfd for this user";
  folder_.write("file", "0123456789");
  ASSERT_TRUE(open({{"file", "0123456789"}}));
  const auto memory = std::make_shared<int>();
  {
    const SourceRead read{1, {0, 0, 10}, Destination{page->data(), memory}};
    source_->submit({&read, 1});
  }
  ASSERT_TRUE(page->wait_until_somebody_waits());
  const SteadyTime start = Clock::now();
  source_.reset();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(answers_.of(1).fault, Fault::cancelled);
  EXPECT_EQ(memory.use_count(), 2) << "the system may still write there";
  page->let_in();
  const SteadyTime give_up = Clock::now() + kPatience;
  while (memory.use_count() > 1 && Clock::now() < give_up) std::this_thread::yield();
  EXPECT_EQ(memory.use_count(), 1);
}

// A file of which parts are read is opened once, and looked at each time.
TEST_P(FolderTest, PartsOfAFileNeedOneOpening) {
  const std::string bytes = test_bytes(1, 1000);
  folder_.write("file", bytes);
  ASSERT_TRUE(open({{"file", bytes}}));
  for (uint64_t id = 0; id < 5; ++id) {
    const Buffer buffer(100);
    read(id, {0, id * 100, 100}, buffer);
    EXPECT_EQ(answers_.of(id).fault, Fault::none);
    EXPECT_EQ(buffer.text(), bytes.substr(id * 100, 100));
    // It is kept a moment after the answer.
    const SteadyTime give_up = Clock::now() + std::chrono::milliseconds(20);
    while (Clock::now() < give_up) std::this_thread::yield();
  }
  source_.reset();
  EXPECT_LE(operations_->totals(Operation::open).count, 2);
  EXPECT_GE(operations_->totals(Operation::stat).count, 5);
}

TEST_P(FolderTest, AFileThatIsOpenAndWasReplacedHasChanged) {
  folder_.write("file", "0123456789");
  ASSERT_TRUE(open({{"file", "0123456789", false, false, listed_version("file")}}));
  read(1, {0, 0, 5}, Buffer(5));
  EXPECT_EQ(answers_.of(1).fault, Fault::none);
  const fs::path file = folder_.path() / "file";
  fs::rename(file, file.string() + ".old");
  folder_.write("file", "abcdefghij");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  read(2, {0, 0, 5}, Buffer(5));
  EXPECT_EQ(answers_.of(2).fault, Fault::changed);
  EXPECT_EQ(answers_.of(2).what, kChanged);
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  read(3, {0, 0, 5}, Buffer(5), Clock::now() + std::chrono::seconds(20));
  EXPECT_EQ(answers_.of(3).fault, Fault::permanent);
}

TEST_P(FolderTest, AFileThatIsOpenAndWasWrittenToHasChanged) {
  folder_.write("file", "0123456789");
  ASSERT_TRUE(open({{"file", "0123456789", false, false, listed_version("file")}}));
  read(1, {0, 0, 5}, Buffer(5));
  EXPECT_EQ(answers_.of(1).fault, Fault::none);
  std::ofstream(folder_.path() / "file", std::ios::app) << "more";
  read(2, {0, 0, 5}, Buffer(5));
  EXPECT_EQ(answers_.of(2).fault, Fault::changed);
}

class ByFolderTest : public FolderTest {
 protected:
  void SetUp() override {
    open_folders_ = 2;
    FolderTest::SetUp();
  }
  std::string bytes_of(uint64_t id, uint32_t object, size_t length) {
    const Buffer buffer(length);
    read(id, {object, 0, length}, buffer);
    return answers_.of(id).fault == Fault::none ? buffer.text() : answers_.of(id).what;
  }
};

TEST_P(ByFolderTest, AFolderIsOpenedOnceForItsFiles) {
  TestObjects objects;
  for (size_t i = 0; i < 10; ++i) {
    objects.push_back({"in/a/folder/" + std::to_string(i), test_bytes(i, 100)});
    folder_.add(objects.back());
  }
  ASSERT_TRUE(open(objects));
  for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(bytes_of(i, i, 100), objects[i].bytes);
  source_.reset();
  EXPECT_EQ(operations_->totals(Operation::open).count, 11);
  EXPECT_EQ(operations_->totals(Operation::stat).count, 10);
}

TEST_P(ByFolderTest, FilesOfMoreFoldersThanStayOpen) {
  TestObjects objects{{"beside", "x"}};
  for (size_t i = 0; i < 30; ++i) {
    objects.push_back({"f" + std::to_string(i % 5) + "/" + std::to_string(i), test_bytes(i, 100)});
  }
  for (const TestObject& object : objects) folder_.add(object);
  ASSERT_TRUE(open(objects));
  for (uint32_t i = 0; i < objects.size(); ++i)
    EXPECT_EQ(bytes_of(i, i, objects[i].bytes.size()), objects[i].bytes);
}

// The descriptor is of the folder that was removed.
TEST_P(ByFolderTest, AFolderThatWasMadeAnewIsFound) {
  folder_.write("in/file", "0123456789");
  ASSERT_TRUE(open({{"in/file", "0123456789"}}));
  EXPECT_EQ(bytes_of(1, 0, 10), "0123456789");
  fs::remove_all(folder_.path() / "in");
  EXPECT_EQ(bytes_of(2, 0, 10), "No such file or directory while opening");
  folder_.write("in/file", "abcdefghij");
  EXPECT_EQ(bytes_of(3, 0, 10), "abcdefghij");
  fs::remove_all(folder_.path() / "in");
  folder_.write("in/file", "klmnopqrst");
  EXPECT_EQ(bytes_of(4, 0, 10), "klmnopqrst");
}

TEST_P(ByFolderTest, AFileThatWasReplacedInAnOpenFolderHasChanged) {
  folder_.write("in/file", "0123456789");
  folder_.write("in/other", "x");
  ASSERT_TRUE(open(
      {{"in/file", "0123456789", false, false, listed_version("in/file")}, {"in/other", "x"}}));
  EXPECT_EQ(bytes_of(1, 1, 1), "x");
  const fs::path file = folder_.path() / "in/file";
  fs::remove(file);
  folder_.write("in/file", "abcdefghij");
  fs::last_write_time(file, fs::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_EQ(bytes_of(2, 0, 10), kChanged);
}

TEST_P(ByFolderTest, AFileInPlaceOfAFolder) {
  folder_.write("in", "x");
  ASSERT_TRUE(open({{"in/file", "0123456789"}}));
  EXPECT_EQ(bytes_of(1, 0, 10), "Not a directory while opening");
}

TEST_P(FolderTest, OperationsAreCounted) {
  folder_.write("file", test_bytes(1, 1000));
  ASSERT_TRUE(open({{"file", std::string(1000, 'x')}, {"gone", "x"}}));
  const Buffer buffer(1000);
  for (uint64_t id = 0; id < 5; ++id) {
    read(id, {0, 0, 1000}, buffer);
    answers_.of(id);
  }
  read(5, {1, 0, 1}, buffer);
  answers_.of(5);
  source_.reset();
  EXPECT_EQ(operations_->totals(Operation::open).count, 6);
  EXPECT_EQ(operations_->totals(Operation::open).failed, 1);
  EXPECT_EQ(operations_->totals(Operation::stat).count, 5);
  EXPECT_EQ(operations_->totals(Operation::read).count, 5);
  EXPECT_EQ(operations_->totals(Operation::read).bytes, 5000);
}

// Pages of a file in the page cache, or nothing where they cannot be counted.
std::optional<size_t> cached_pages(const fs::path& path) {
  const size_t size = fs::file_size(path);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  if (memory == MAP_FAILED) return std::nullopt;
  std::vector<unsigned char> pages((size + 4095) / 4096);
  const int failed = ::mincore(memory, size, pages.data());
  ::munmap(memory, size);
  if (failed != 0) return std::nullopt;
  return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; });
}

TEST_P(FolderTest, PageCacheIsLeftAsItWas) {
  constexpr size_t kSize = 4 << 20;
  folder_.write("file", test_bytes(1, kSize));
  const fs::path path = folder_.path() / "file";
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ::fsync(fd);  // what is not yet written stays in the cache
  ::close(fd);
  drop_page_cache_ = true;
  ASSERT_TRUE(open({{"file", std::string(kSize, 'x')}}));
  const Buffer buffer(kSize);
  read(1, {0, 0, kSize}, buffer);
  EXPECT_EQ(answers_.of(1).fault, Fault::none);
  source_.reset();  // the advice is given after the answer
  const std::optional<size_t> cached = cached_pages(path);
  if (!cached || *cached == kSize / 4096) GTEST_SKIP() << "the file system keeps everything";
  EXPECT_LT(*cached, kSize / 4096 / 10);
}

// Reads 600 files with few descriptors; returns what went wrong, 0 if nothing.
int read_with_few_descriptors(IoEngine engine, int left) {
  TestObjects objects;
  for (size_t i = 0; i < 600; ++i) {
    const std::string folder = "f" + std::to_string(i % 40) + "/";
    objects.push_back({folder + std::to_string(i), test_bytes(i, 300)});
  }
  const TestFolder folder(objects);
  const rlimit limit{64, 64};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return 2;
  Answers answers;
  const auto source = open_test_folder(folder, engine, std::make_shared<TestCatalog>(objects), 256,
                                       answers.callback(), 30);
  if (!source) return engine == IoEngine::io_uring ? 0 : 3;
  std::vector<int> taken;
  if (left > 0) {
    for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
    for (int i = 0; i < left; ++i) {
      ::close(taken.back());
      taken.pop_back();
    }
  }
  std::vector<Buffer> buffers;
  std::vector<SourceRead> reads;
  for (uint32_t i = 0; i < objects.size(); ++i) {
    buffers.emplace_back(300);
    reads.push_back({i, {i, 0, 300}, buffers.back().destination()});
  }
  source->submit(reads);
  if (!answers.wait_for_count(objects.size())) return 4;
  if (answers.count_of(Fault::none) != objects.size()) return 5;
  for (uint32_t i = 0; i < objects.size(); ++i) {
    if (buffers[i].text() != objects[i].bytes) return 6;
  }
  return 0;
}

// In a process of its own, because the limit is one of the process.
class FolderDeathTest : public testing::TestWithParam<IoEngine> {};

TEST_P(FolderDeathTest, SixtyFourDescriptors) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(read_with_few_descriptors(GetParam(), 0)), testing::ExitedWithCode(0), "");
}

TEST_P(FolderDeathTest, ThreeDescriptorsLeft) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's check of object types opens a pipe, and errs where it cannot";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(read_with_few_descriptors(GetParam(), 3)), testing::ExitedWithCode(0), "");
}

const auto kEngines = testing::Values(IoEngine::io_uring, IoEngine::threads);
const auto kEngineName = [](const testing::TestParamInfo<IoEngine>& test) {
  return std::string(test.param == IoEngine::io_uring ? "Uring" : "Threads");
};
INSTANTIATE_TEST_SUITE_P(Engines, FolderTest, kEngines, kEngineName);
INSTANTIATE_TEST_SUITE_P(Engines, ByFolderTest, kEngines, kEngineName);
INSTANTIATE_TEST_SUITE_P(Engines, FolderDeathTest, kEngines, kEngineName);

Error unreadable(size_t object, const std::string& why) {
  return {ErrorKind::unreadable, std::to_string(object) + ": " + why};
}

TEST(ListedByFolder, FilesAreAskedAboutRelativeToTheirFolders) {
  const TestFolder folder;
  StoreCall call;
  call.open_folders = 2;
  call.operations = std::make_shared<Operations>();
  std::vector<StoredObject> objects{{"beside"}};
  for (size_t i = 0; i < 30; ++i)
    objects.push_back({"f" + std::to_string(i % 5) + "/in/" + std::to_string(i)});
  for (size_t i = 0; i < objects.size(); ++i) folder.write(objects[i].name, std::string(i, 'x'));
  const FileStore store(folder.path());
  ASSERT_TRUE(store.stat(objects, call, unreadable));
  std::vector<StoredObject> by_path = objects;
  for (StoredObject& object : by_path) object = {object.name};
  ASSERT_TRUE(store.stat(by_path, {}, unreadable));
  for (size_t i = 0; i < objects.size(); ++i) {
    EXPECT_EQ(objects[i].size, i);
    EXPECT_EQ(objects[i].version, by_path[i].version);
  }
  EXPECT_EQ(call.operations->totals(Operation::stat).count, objects.size());
}

TEST(ListedByFolder, WhatCannotBeAskedAboutSaysWhy) {
  const TestFolder folder;
  StoreCall call;
  call.open_folders = 2;
  folder.write("in/file", "x");
  fs::create_symlink("nowhere", folder.path() / "in/link");
  const FileStore store(folder.path());
  std::vector<StoredObject> objects{{"in/file"}, {"in/link"}};
  ASSERT_TRUE(store.stat(objects, call, unreadable));
  EXPECT_EQ(objects[1].version, kLinkToNothing);
  objects = {{"in/file"}, {"in/none"}};
  auto done = store.stat(objects, call, unreadable);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "1: No such file or directory");
  objects = {{"in/"}};
  done = store.stat(objects, call, unreadable);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "0: it is a folder");
}

// They are asked about in another order.
TEST(ListedByFolder, TheFirstThatCannotBeAskedAboutIsNamed) {
  const TestFolder folder;
  StoreCall call;
  call.open_folders = 2;
  size_t most_done = 0;
  call.progress = [&most_done](size_t done, size_t) { return most_done = done, true; };
  std::vector<StoredObject> objects;
  for (size_t i = 0; i < 500; ++i) {
    objects.push_back({"f" + std::to_string(i / 50) + "/" + std::to_string(i)});
    if (i != 77 && i != 430 && i != 499) folder.write(objects.back().name, "x");
  }
  const FileStore store(folder.path());
  const auto done = store.stat(objects, call, unreadable);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "77: No such file or directory");
  for (const size_t i : {77, 430, 499}) folder.write(objects[i].name, "x");
  ASSERT_TRUE(store.stat(objects, call, unreadable));
  EXPECT_EQ(most_done, 500);
  for (const StoredObject& object : objects) EXPECT_EQ(object.size, 1);
}

// Where the system gives no types, listing asks for them, and for sizes in the same request.
TEST(ListedByFolder, LinksAreAskedAboutOnce) {
  const TestFolder folder;
  folder.write("in/file", "123");
  fs::create_symlink("file", folder.path() / "in/link");
  StoreCall call;
  call.open_folders = 2;
  call.operations = std::make_shared<Operations>();
  const FileStore store(folder.path());
  auto folders = store.list("", call);
  ASSERT_TRUE(folders);
  ASSERT_EQ(folders->size(), 2);
  std::vector<StoredObject>& files = folders->back().objects;
  ASSERT_TRUE(store.stat(files, call, unreadable));
  ASSERT_EQ(files.size(), 2);
  EXPECT_EQ(files[0].version, files[1].version);
  EXPECT_EQ(files[1].size, 3);
  EXPECT_EQ(call.operations->totals(Operation::stat).count, 2);
}

TEST(OpenFolder, RootMustBeAFolder) {
  const TestFolder folder;
  folder.write("file", "x");
  for (const char* name : {"none", "file"}) {
    SourceSettings settings;
    settings.objects = std::make_shared<TestCatalog>(TestObjects{});
    const auto source =
        FileStore(folder.path() / name).open(std::move(settings), [](const SourceAnswer&) {});
    ASSERT_FALSE(source);
    EXPECT_EQ(source.error().kind, ErrorKind::unreadable);
    EXPECT_NE(source.error().message.find(name), std::string::npos);
  }
}

TEST(OpenFolder, CatalogIsNeeded) {
  const auto source = FileStore("/tmp").open({}, [](const SourceAnswer&) {});
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().kind, ErrorKind::invalid);
}

TEST(OpenFolder, AutomaticAlwaysFindsAnEngine) {
  const TestFolder folder;
  const auto source =
      open_test_folder(folder, IoEngine::automatic, std::make_shared<TestCatalog>(TestObjects{}), 4,
                       [](const SourceAnswer&) {});
  ASSERT_TRUE(source);
  EXPECT_TRUE(source->describe().starts_with("folder " + folder.path().string() + " ("));
}

}  // namespace
}  // namespace foreload
