// SPDX-License-Identifier: Apache-2.0
//
// The disk tier among processes and on disks that refuse: kill -9, two jobs, no space, read-only,
// deleted under us.
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <set>

#include "../base/without_privilege.h"
#include "disk_fixture.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

// A child process that runs `work` and reports through a pipe. Forked while this process has one
// thread.
class Child {
 public:
  template <class Work>
  explicit Child(Work work) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(ends[0]);
      work([&](uint64_t word) {
        if (::write(ends[1], &word, sizeof word) != sizeof word) ::_exit(3);
      });
      ::_exit(0);
    }
    ::close(ends[1]);
    from_ = ends[0];
  }
  ~Child() {
    if (pid_ > 0) kill();
    ::close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // False when the child has ended.
  bool hear(uint64_t& word) {
    for (;;) {
      const ssize_t n = ::read(from_, &word, sizeof word);
      if (n < 0 && errno == EINTR) continue;
      return n == sizeof word;
    }
  }
  void kill() {
    ::kill(pid_, SIGKILL);
    wait();
  }
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
  int from_ = -1;
};

constexpr uint64_t kKillSamples = 4000;

size_t size_of(uint64_t sample) {
  return sample % 13 == 0 ? 60'000 + sample : 200 + sample % 7000;
}

// Writes samples over and over, each with the version that says which try it is, and drops some, so
// that room is won back all the time. What earlier tries left is not wanted.
template <class Report>
void write_for_ever(const DiskSettings& settings, uint64_t seed, Report report) {
  TierUser tier(settings);
  if (!tier) ::_exit(2);
  tier.keep([](uint64_t) { return false; });
  std::vector<uint64_t> ids;
  for (uint64_t i = 0;; ++i) {
    const uint64_t random = mix64(seed * 1'000'003 + i);
    const uint64_t sample = random % kKillSamples;
    ids.push_back(tier.start_write(sample, bytes_of(sample, size_of(sample), seed), seed));
    if (random / 4096 % 3 == 0) tier.drop(mix64(random) % kKillSamples, seed);
    if (ids.size() < 16) continue;
    for (const uint64_t id : ids) tier.wait(id);
    ids.clear();
    report(i);
  }
}

class DiskKillTest : public DiskFixture {
 protected:
  void kill_and_verify(int kills);
};
class DiskKillSoak : public DiskKillTest {};

void DiskKillTest::kill_and_verify(int kills) {
  settings_.budget = uint64_t{4} << 20;
  settings_.segment_bytes = uint64_t{512} << 10;
  uint64_t found = 0;
  uint64_t corrupt = 0;
  for (int round = 0; round < kills; ++round) {
    const uint64_t seed = static_cast<uint64_t>(round) + 1;
    settings_.io_uring = round % 2 == 0;
    settings_.direct_io = round % 3 != 0;
    {
      Child child([&](auto report) { write_for_ever(settings_, seed, report); });
      uint64_t word = 0;
      for (uint64_t heard = mix64(seed) % 60; heard > 0; --heard) ASSERT_TRUE(child.hear(word));
      child.kill();
    }
    TierUser tier(settings_);
    ASSERT_TRUE(tier) << tier.error().message;
    EXPECT_LE(bytes_on_disk(), settings_.budget);
    for (const FoundSample& entry : tier.found()) {
      ASSERT_EQ(entry.size, size_of(entry.sample));
      const TierEnd answer = tier.read(entry.sample, entry.size, entry.version);
      ASSERT_TRUE(answer == TierEnd::done || answer == TierEnd::corrupt);
      ++(answer == TierEnd::done ? found : corrupt);
    }
  }
  EXPECT_GT(found, 0u);
  RecordProperty("found", std::to_string(found));
  RecordProperty("corrupt", std::to_string(corrupt));
}

TEST_F(DiskKillTest, AfterKillNineEverythingFoundIsRight) {
  kill_and_verify(20);
}

TEST_F(DiskKillSoak, AfterKillNineEverythingFoundIsRight) {
  kill_and_verify(200);
}

class DiskProcessTest : public DiskFixture {};
class DiskFaultTest : public DiskOfEveryKind {};
INSTANTIATE_TEST_SUITE_P(Everywhere, DiskFaultTest, every_kind_of_disk(), name_of_kind);

TEST_F(DiskProcessTest, TwoProcessesAtOnceShareNothing) {
  const auto fill = [this](uint64_t first) {
    TierUser tier(settings_);
    if (!tier) ::_exit(2);
    for (uint64_t sample = first; sample < first + 50; ++sample) {
      if (tier.write(sample, 5000) != TierEnd::done) ::_exit(4);
    }
    for (uint64_t sample = first; sample < first + 50; ++sample) {
      if (tier.read(sample, 5000) != TierEnd::done) ::_exit(5);
    }
    tier.close();
  };
  Child one([&](auto) { fill(0); });
  Child two([&](auto) { fill(1000); });
  EXPECT_EQ(one.wait(), 0);
  EXPECT_EQ(two.wait(), 0);
  TierUser tier(settings_);
  EXPECT_EQ(tier.found().size(), 100u);
  for (const FoundSample& entry : tier.found()) {
    EXPECT_EQ(tier.read(entry.sample, entry.size), TierEnd::done);
  }
}

TEST_F(DiskProcessTest, TheSecondProcessIsToldWhoIsFirstAndGetsWhatIsLeft) {
  settings_.budget = uint64_t{4} << 20;
  settings_.reserve = uint64_t{1} << 20;
  Child first([&](auto report) {
    TierUser tier(settings_);
    report(static_cast<uint64_t>(::getpid()));
    ::pause();
  });
  uint64_t process = 0;
  ASSERT_TRUE(first.hear(process));
  DiskSharing sharing;
  auto second = open_disk(settings_, &sharing);
  ASSERT_TRUE(second) << second.error().message;
  ASSERT_EQ(sharing.others.size(), 1u);
  EXPECT_EQ(sharing.others[0].process, process);
  EXPECT_FALSE(sharing.others[0].host.empty());
  EXPECT_EQ(sharing.others[0].bytes(), uint64_t{1} << 20);
  EXPECT_EQ(sharing.budget, uint64_t{3} << 20);
}

TEST_F(DiskProcessTest, WhereTheFirstProcessNeedsTheWholeBudgetTheSecondHasNoTier) {
  settings_.budget = uint64_t{4} << 20;
  settings_.reserve = settings_.budget;
  Child first([&](auto report) {
    TierUser tier(settings_);
    report(1);
    ::pause();
  });
  uint64_t word = 0;
  ASSERT_TRUE(first.hear(word));
  DiskSharing sharing;
  const auto second = open_disk(settings_, &sharing);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(*second, nullptr);
  EXPECT_EQ(sharing.budget, 0u);
}

TEST_F(DiskProcessTest, AFirstProcessThatHasEndedTakesNothing) {
  settings_.reserve = settings_.budget;
  {
    TierUser first(settings_);
  }
  DiskSharing sharing;
  const auto second = open_disk(settings_, &sharing);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(sharing.others.empty());
  EXPECT_EQ(sharing.budget, settings_.budget);
}

TEST_F(DiskProcessTest, ALockedSlotIsTakenOverWhenItsProcessDies) {
  Child child([&](auto report) {
    TierUser tier(settings_);
    tier.write(1, 100);
    report(1);
    for (;;) ::pause();
  });
  uint64_t word = 0;
  ASSERT_TRUE(child.hear(word));
  {
    TierUser tier(settings_);
    EXPECT_TRUE(tier.found().empty());
  }
  child.kill();
  TierUser tier(settings_);
  EXPECT_EQ(samples_of(tier.found()), std::vector<uint64_t>{1});
  EXPECT_EQ(tier.read(1, 100), TierEnd::done);
}

TEST_P(DiskFaultTest, TurnsItselfOffWhenItsFolderIsDeleted) {
  TierUser tier(settings_);
  ASSERT_EQ(tier.write(1, 100), TierEnd::done);
  fs::remove_all(settings_.folder);
  EXPECT_EQ(tier.write(2, 100), TierEnd::failed);
  ASSERT_TRUE(tier->dead());
  EXPECT_NE(tier->dead()->find("deleted"), std::string::npos) << *tier->dead();
  EXPECT_EQ(tier.write(3, 100), TierEnd::failed);
  EXPECT_EQ(tier.read(2, 100), TierEnd::miss);
}

TEST_P(DiskFaultTest, TurnsItselfOffWhenItsFolderIsDeletedBeforeTheFirstWrite) {
  TierUser tier(settings_);
  fs::remove_all(settings_.folder);
  EXPECT_EQ(tier.write(2, 100), TierEnd::failed);
  EXPECT_TRUE(tier->dead());
}

TEST_P(DiskFaultTest, ReadsOfDeletedFilesFailSoftly) {
  {
    TierUser tier(settings_);
    ASSERT_EQ(tier.write(1, 100), TierEnd::done);
  }
  TierUser tier(settings_);
  fs::remove_all(settings_.folder);
  EXPECT_EQ(tier.read(1, 100), TierEnd::failed);
}

// Writing beyond a limit fails in the middle of a file, as on a full disk. The signal that comes
// with it must be off, as the Python interpreter has it.
TEST_P(DiskFaultTest, TurnsItselfOffWhenAWriteFails) {
  struct rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  struct rlimit low = before;
  low.rlim_cur = 300'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  {
    TierUser tier(settings_);
    uint64_t written = 0;
    while (written < 1000 && tier.write(written, 20'000) == TierEnd::done) ++written;
    EXPECT_GT(written, 5u);
    EXPECT_LT(written, 20u);
    ASSERT_TRUE(tier->dead());
    EXPECT_NE(tier->dead()->find("File too large"), std::string::npos) << *tier->dead();
    EXPECT_EQ(tier.write(5000, 100), TierEnd::failed);
    for (uint64_t sample = 0; sample < written; ++sample) {
      EXPECT_EQ(tier.read(sample, 20'000), TierEnd::done);
    }
  }
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, handler);
  TierUser tier(settings_);
  EXPECT_GT(tier.found().size(), 5u);
  for (const FoundSample& entry : tier.found()) {
    EXPECT_EQ(tier.read(entry.sample, entry.size), TierEnd::done);
  }
}

// Signals belong to the threads of the program: one that the disk's threads caught would run its
// handler there, or interrupt their system calls.
TEST_P(DiskFaultTest, ItsThreadsBlockAllSignals) {
  TierUser tier(settings_);
  // The writer and a reader have begun then, and have their names.
  ASSERT_EQ(tier.write(1, 100), TierEnd::done);
  ASSERT_EQ(tier.read(1, 100), TierEnd::done);
  int threads = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    if (contents(task.path() / "comm") != "foreload-disk\n") continue;
    ++threads;
    const std::string status = contents(task.path() / "status");
    const uint64_t blocked = std::stoull(status.substr(status.find("SigBlk:") + 7), nullptr, 16);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD, SIGALRM, SIGUSR1, SIGPROF, SIGRTMIN})
      EXPECT_TRUE(blocked >> (signal - 1) & 1) << signal;
  }
  EXPECT_GE(threads, 2);
}

// A small file system of its own, where the system lets us mount one.
class DiskMountTest : public DiskFixture {
 protected:
  void SetUp() override {
    fs::create_directory(folder_ / "mount");
    mounted_ = ::mount("none", (folder_ / "mount").c_str(), "tmpfs", 0, "size=4m") == 0;
    if (!mounted_) GTEST_SKIP() << "cannot mount a file system: " << std::strerror(errno);
    settings_.folder = folder_ / "mount/cache";
    settings_.budget = uint64_t{3} << 20;
  }
  void TearDown() override {
    if (mounted_) ::umount2((folder_ / "mount").c_str(), MNT_DETACH);
  }

  bool mounted_ = false;
};

TEST_F(DiskMountTest, WorksOnATemporaryFileSystem) {
  {
    TierUser tier(settings_);
    ASSERT_TRUE(tier) << tier.error().message;
    for (uint64_t sample = 0; sample < 20; ++sample) {
      EXPECT_EQ(tier.write(sample, 50'001), TierEnd::done);
      EXPECT_EQ(tier.read(sample, 50'001), TierEnd::done);
    }
  }
  TierUser tier(settings_);
  EXPECT_EQ(tier.found().size(), 20u);
}

TEST_F(DiskMountTest, TurnsItselfOffWhenTheDiskIsFull) {
  TierUser tier(settings_);
  ASSERT_TRUE(tier) << tier.error().message;
  ASSERT_EQ(tier.write(0, 50'000), TierEnd::done);
  replace(folder_ / "mount/other", std::string(3'600'000, 'x'));
  uint64_t sample = 1;
  TierEnd answer = TierEnd::done;
  while (sample < 100 && answer == TierEnd::done) answer = tier.write(sample++, 50'000);
  EXPECT_EQ(answer, TierEnd::failed);
  ASSERT_TRUE(tier->dead());
  EXPECT_NE(tier->dead()->find("No space left"), std::string::npos) << *tier->dead();
  EXPECT_EQ(tier.read(0, 50'000), TierEnd::done);
  tier.close();
  fs::remove(folder_ / "mount/other");
  TierUser again(settings_);
  EXPECT_FALSE(again.found().empty());
  for (const FoundSample& entry : again.found()) {
    EXPECT_EQ(again.read(entry.sample, entry.size), TierEnd::done);
  }
  EXPECT_EQ(again.write(500, 50'000), TierEnd::done);
}

TEST_F(DiskMountTest, RefusesABudgetBeyondTheFreeSpace) {
  settings_.budget = uint64_t{8} << 20;
  TierUser tier(settings_);
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().kind, ErrorKind::invalid);
  EXPECT_NE(tier.error().message.find("disk budget of 8"), std::string::npos)
      << tier.error().message;
}

TEST_F(DiskMountTest, AReadOnlyDiskIsUnreadable) {
  const std::string mount = (folder_ / "mount").string();
  ASSERT_EQ(::mount("none", mount.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
  TierUser tier(settings_);
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().kind, ErrorKind::unreadable);
  EXPECT_NE(tier.error().message.find("Read-only"), std::string::npos) << tier.error().message;
}

TEST_F(DiskProcessTest, AFolderWithoutPermissionIsUnreadable) {
  const WithoutPrivilege ordinary;
  fs::create_directory(settings_.folder);
  fs::permissions(settings_.folder, fs::perms::owner_read | fs::perms::owner_exec);
  TierUser tier(settings_);
  ASSERT_FALSE(tier);
  EXPECT_EQ(tier.error().kind, ErrorKind::unreadable);
}

}  // namespace
}  // namespace foreload
