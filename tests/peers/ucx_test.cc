// SPDX-License-Identifier: Apache-2.0
//
// What only the UCX transport has: tags, and peers in processes that are stopped and killed.
#include <dirent.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "foreload/peers/ucx/crypto.h"
#include "foreload/peers/ucx/frame.h"

#include "child.h"
#include "loopback_job.h"
#include "rank_at_work.h"

namespace foreload {
namespace {

using ucx::Seal;
using Clock = std::chrono::steady_clock;

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class UcxFrame : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(ucx::open_crypto()); }
  static Seal seal(int secret, uint32_t from, uint32_t to, int nonce) {
    JobSecret job{};
    job[3] = static_cast<std::byte>(secret);
    return {job, {from, {static_cast<std::byte>(nonce)}}, {to, {}}};
  }
  std::vector<std::byte> sealed(uint64_t count = 5) {
    ucx::FrameStart start;
    start.from = 1;
    start.count = count;
    start.payload_bytes = piece_.size();
    return ucx::seal_frame(seal_, start, header_, piece_);
  }
  bool opens(Seal& seal, const std::vector<std::byte>& frame, const std::vector<std::byte>& piece,
             uint64_t last = 0) {
    return ucx::claimed_sender(frame, 4) && ucx::open_frame(seal, frame, piece, last);
  }

  Seal seal_ = seal(1, 1, 2, 3);
  const std::vector<std::byte> header_ = bytes_of("header");
  const std::vector<std::byte> piece_ = bytes_of("the payload of the message");
};

TEST_F(UcxFrame, OpensWithTheSameKey) {
  Seal same = seal(1, 1, 2, 3);
  const auto frame = sealed();
  EXPECT_EQ(ucx::claimed_sender(frame, 4), 1);
  const auto opened = ucx::open_frame(same, frame, piece_, 4);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->start.count, 5);
  EXPECT_TRUE(
      std::equal(opened->header.begin(), opened->header.end(), header_.begin(), header_.end()));
}

TEST_F(UcxFrame, OtherJobPairDirectionOrRunDoesNotOpen) {
  const auto frame = sealed();
  Seal job = seal(2, 1, 2, 3), pair = seal(1, 1, 3, 3), direction = seal(1, 2, 1, 3);
  Seal run = seal(1, 1, 2, 4);
  for (Seal* other : {&job, &pair, &direction, &run}) EXPECT_FALSE(opens(*other, frame, piece_));
}

TEST_F(UcxFrame, ComesOnlyOnce) {
  const auto frame = sealed();
  EXPECT_TRUE(opens(seal_, frame, piece_, 4));
  EXPECT_FALSE(opens(seal_, frame, piece_, 5));
  EXPECT_FALSE(opens(seal_, frame, piece_, 6));
}

TEST_F(UcxFrame, EveryFlippedBitIsFound) {
  auto frame = sealed();
  for (size_t bit = 0; bit < 8 * frame.size(); ++bit) {
    frame[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(opens(seal_, frame, piece_)) << bit;
    frame[bit / 8] ^= std::byte{1} << bit % 8;
  }
  auto piece = piece_;
  for (size_t bit = 0; bit < 8 * piece.size(); ++bit) {
    piece[bit / 8] ^= std::byte{1} << bit % 8;
    EXPECT_FALSE(opens(seal_, frame, piece)) << bit;
    piece[bit / 8] ^= std::byte{1} << bit % 8;
  }
}

TEST_F(UcxFrame, EveryTruncationIsFound) {
  const auto frame = sealed();
  for (size_t size = 0; size < frame.size(); ++size) {
    EXPECT_FALSE(opens(seal_, {frame.begin(), frame.begin() + static_cast<long>(size)}, piece_));
  }
  for (size_t size = 0; size < piece_.size(); ++size) {
    EXPECT_FALSE(opens(seal_, frame, {piece_.begin(), piece_.begin() + static_cast<long>(size)}));
  }
}

// Signed by somebody who has the key and a bug.
TEST_F(UcxFrame, ValuesOutOfRangeAreRefused) {
  const auto opens_with = [&](auto change, std::vector<std::byte> header, size_t piece_bytes) {
    ucx::FrameStart start;
    start.from = 1;
    start.count = 9;
    start.payload_bytes = piece_bytes;
    change(start);
    const std::vector<std::byte> piece(piece_bytes);
    return opens(seal_, ucx::seal_frame(seal_, start, header, piece), piece);
  };
  EXPECT_TRUE(opens_with([](auto&) {}, header_, 10));
  EXPECT_TRUE(opens_with([](auto&) {}, header_, 0));
  EXPECT_TRUE(opens_with([](auto& s) { s.offset = 5, s.payload_bytes = 15; }, {}, 10));
  EXPECT_FALSE(opens_with([](auto& s) { s.from = 4; }, header_, 10));
  EXPECT_FALSE(opens_with([](auto& s) { s.payload_bytes = 9; }, header_, 10));
  EXPECT_FALSE(opens_with([](auto& s) { s.payload_bytes = kMostPayloadBytes + 1; }, header_, 10));
  EXPECT_FALSE(opens_with([](auto& s) { s.payload_bytes = 10; }, header_, 0));
  EXPECT_FALSE(opens_with([](auto& s) { s.offset = 5, s.payload_bytes = 14; }, {}, 10));
  EXPECT_FALSE(opens_with([](auto& s) { s.offset = 5, s.payload_bytes = 15; }, header_, 10));
  EXPECT_FALSE(opens_with([](auto& s) { s.offset = UINT64_MAX, s.payload_bytes = 15; }, {}, 10));
  EXPECT_FALSE(opens_with([](auto&) {}, {}, 10));
}

Result<std::unique_ptr<Transport>> join(
    const TemporaryFolder& job, RankAtWork& rank,
    const std::function<void(TransportSettings&)>& change = {}) {
  auto settings = loopback_settings(job.path(), rank.rank, rank.ranks, FORELOAD_TEST_COMPONENTS);
  if (change) change(settings);
  return load_transport("ucx", settings, rank.calls());
}

TEST(UcxJoin, OtherSecretIsNamed) {
  const TemporaryFolder job;
  std::vector<std::jthread> threads;
  for (uint32_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      RankAtWork rank(r, 2, [] { return true; });
      const auto made = join(
          job, rank, [&](TransportSettings& settings) { settings.secret[5] = std::byte(r + 1); });
      ASSERT_FALSE(made);
      EXPECT_EQ(made.error().kind, ErrorKind::invalid);
      EXPECT_NE(made.error().message.find("rank " + std::to_string(1 - r)), std::string::npos);
    });
  }
}

TEST(UcxJoin, MissingRanksAreNamed) {
  const TemporaryFolder job;
  RankAtWork rank(1, 4, [] { return true; });
  const auto made = join(job, rank, [](TransportSettings& settings) {
    settings.join_timeout = std::chrono::milliseconds(50);
  });
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::cancelled);
  EXPECT_NE(made.error().message.find("0 and 2 to 3 are missing"), std::string::npos)
      << made.error().message;
}

TEST(UcxJoin, SettingsThatMakeNoSense) {
  const TemporaryFolder job;
  const auto kind_of = [&](const std::function<void(TransportSettings&)>& change) {
    RankAtWork rank(0, 1, [] { return true; });
    const auto made = join(job, rank, change);
    return made ? ErrorKind::corrupt : made.error().kind;
  };
  EXPECT_EQ(kind_of([](auto& s) { s.secret = {}; }), ErrorKind::invalid);
  EXPECT_EQ(kind_of([](auto& s) { s.rank = 1; }), ErrorKind::invalid);
  EXPECT_EQ(kind_of([](auto& s) { s.rendezvous = nullptr; }), ErrorKind::invalid);
  EXPECT_EQ(kind_of([](auto& s) { s.interface = "nosuch0"; }), ErrorKind::unreadable);
  if (std::getenv("UCX_NET_DEVICES") == nullptr) {
    EXPECT_EQ(kind_of([](auto& s) { s.interface = ""; }), ErrorKind::invalid);
  }
}

// A job of one rank in a process of its own, since a process has one UCX: the first it opened.
std::string alone(const std::string& ucx) {
  const TemporaryFolder job;
  Child rank(std::vector<std::string>{FORELOAD_TEST_UCX_RANK, job.path(), "0", "1",
                                      FORELOAD_TEST_COMPONENTS, ucx});
  const std::string first = rank.hear();
  return first + "\n" + rank.hear();
}

TEST(UcxLibrary, GivenByPath) {
  // The one of this process, under a path of its own.
  const TemporaryFolder job;
  RankAtWork rank(0, 1, [] { return true; });
  ASSERT_TRUE(join(job, rank));
  void* const ucp = ::dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(ucp, nullptr);
  Dl_info info{};
  ASSERT_NE(::dladdr(::dlsym(ucp, "ucp_get_version"), &info), 0);
  const auto folder = job.path() / "ucx";
  std::filesystem::create_directory(folder);
  std::filesystem::create_symlink(info.dli_fname, folder / "libucp.so.0");
  EXPECT_EQ(alone(folder), "unchanged\nready");
}

TEST(UcxLibrary, FolderWithoutUcxIsNamed) {
  const TemporaryFolder empty;
  const std::string said = alone(empty.path());
  EXPECT_NE(said.find("found no UCX library"), std::string::npos) << said;
  EXPECT_NE(said.find(empty.path().string()), std::string::npos) << said;
}

// This process is rank 0, the other one rank 1.
class UcxProcesses : public testing::Test {
 protected:
  void SetUp() override {
    auto made = join(job_, rank_);
    ASSERT_TRUE(made) << made.error().message;
    rank_.start(std::move(*made));
    EXPECT_EQ(other_.hear(), "unchanged");
    ASSERT_EQ(other_.hear(), "ready");
  }
  void ask(size_t bytes) { rank_.send(1, "please " + std::to_string(bytes)); }

  const TemporaryFolder job_;
  RankAtWork rank_{0, 2, [] { return true; }};
  Child other_{std::vector<std::string>{FORELOAD_TEST_UCX_RANK, job_.path(), "1", "2",
                                        FORELOAD_TEST_COMPONENTS}};
};

TEST_F(UcxProcesses, KilledPeerIsLost) {
  ask(100'000);
  ASSERT_TRUE(rank_.wait_for_arrivals(1));
  for (int i = 0; i < 20; ++i) ask(10'000'000);
  ASSERT_TRUE(rank_.wait_for_arrivals(2));
  other_.kill_and_wait();
  const auto payload = std::make_shared<const std::string>(payload_bytes(1, 1'000'000));
  for (int i = 0; i < 20; ++i) rank_.send_shared(1, "push", payload);
  ASSERT_TRUE(rank_.wait_for_lost(1));
  ASSERT_TRUE(rank_.wait_for_all_sent());
  rank_.end();
  EXPECT_EQ(rank_.lost(), std::vector<uint32_t>{1});
  EXPECT_EQ(payload.use_count(), 1);
}

TEST_F(UcxProcesses, StoppedPeerBlocksNothing) {
  ask(100'000);
  ASSERT_TRUE(rank_.wait_for_arrivals(1));
  other_.stop();
  const auto payload = std::make_shared<const std::string>(payload_bytes(1, 4'000'000));
  for (int i = 0; i < 20; ++i) rank_.send_shared(1, "push", payload);
  rank_.transport().drop(1);
  ASSERT_TRUE(rank_.wait_for_all_sent());
  const auto start = Clock::now();
  rank_.end();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(payload.use_count(), 1);
}

TEST_F(UcxProcesses, EndWhileThePeerIsStopped) {
  ask(100'000);
  ASSERT_TRUE(rank_.wait_for_arrivals(1));
  other_.stop();
  const auto payload = std::make_shared<const std::string>(payload_bytes(1, 4'000'000));
  for (int i = 0; i < 20; ++i) rank_.send_shared(1, "push", payload);
  const auto start = Clock::now();
  rank_.end();
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(rank_.sent_ok() + rank_.sent_failed(), 21);
  EXPECT_EQ(payload.use_count(), 1);
}

// Hundredths of a second of processor time.
long ticks_of(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 11; ++i) fields >> skipped;
  long user = 0, system = 0;
  fields >> user >> system;
  return user + system;
}

TEST_F(UcxProcesses, SleepsWhileNothingHappens) {
  for (int i = 0; i < 50; ++i) ask(100'000);
  ASSERT_TRUE(rank_.wait_for_arrivals(50));
  const long before = ticks_of(other_.pid());
  ::usleep(500'000);
  // A thread that spins would need 50.
  EXPECT_LE(ticks_of(other_.pid()) - before, 10);
}

TEST_F(UcxProcesses, ListensOnItsInterfaceOnly) {
  std::set<std::string> sockets;
  const std::string process = "/proc/" + std::to_string(other_.pid());
  DIR* const folder = ::opendir((process + "/fd").c_str());
  ASSERT_NE(folder, nullptr);
  while (const dirent* entry = ::readdir(folder)) {
    char target[64] = "";
    const std::string link = process + "/fd/" + entry->d_name;
    if (::readlink(link.c_str(), target, sizeof target - 1) > 0) sockets.insert(target);
  }
  ::closedir(folder);
  int listening = 0;
  for (const char* table : {"/net/tcp", "/net/tcp6", "/net/udp", "/net/udp6"}) {
    std::ifstream file(process + table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream fields(line);
      std::string slot, local, remote, state, x, inode;
      fields >> slot >> local >> remote >> state >> x >> x >> x >> x >> x >> inode;
      if (!sockets.contains("socket:[" + inode + "]")) continue;
      const bool tcp = std::strstr(table, "tcp") != nullptr;
      if (tcp && state != "0A") continue;
      ++listening;
      EXPECT_TRUE(local.starts_with("0100007F:")) << table << " " << local;
    }
  }
  EXPECT_GE(listening, 1);
}

// Bytes of memory that a process alone uses.
size_t private_bytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/smaps_rollup");
  std::string word;
  size_t kilobytes = 0, sum = 0;
  while (file >> word) {
    if (word == "Private_Clean:" || word == "Private_Dirty:") {
      file >> kilobytes;
      sum += kilobytes;
    }
  }
  return sum << 10;
}

TEST(UcxSoak, SixtyFourRanks) {
  constexpr uint32_t kRanks = 64;
  const TemporaryFolder job;
  const auto start = Clock::now();
  std::vector<std::unique_ptr<Child>> others;
  for (uint32_t r = 1; r < kRanks; ++r) {
    others.push_back(std::make_unique<Child>(
        std::vector<std::string>{FORELOAD_TEST_UCX_RANK, job.path(), std::to_string(r),
                                 std::to_string(kRanks), FORELOAD_TEST_COMPONENTS}));
  }
  RankAtWork rank(0, kRanks, [] { return true; });
  auto made = join(job, rank);
  ASSERT_TRUE(made) << made.error().message;
  rank.start(std::move(*made));
  for (const auto& other : others) {
    ASSERT_EQ(other->hear(), "unchanged");
    ASSERT_EQ(other->hear(), "ready");
  }
  RecordProperty("seconds_to_join",
                 std::to_string(std::chrono::duration<double>(Clock::now() - start).count()));
  for (int round = 0; round < 20; ++round) {
    for (uint32_t r = 1; r < kRanks; ++r) rank.send(r, "please 1000");
  }
  ASSERT_TRUE(rank.wait_for_arrivals(20 * (kRanks - 1)));
  RecordProperty("private_bytes_of_a_rank", std::to_string(private_bytes(others[7]->pid())));
  RecordProperty("private_bytes_of_the_asker", std::to_string(private_bytes(::getpid())));
  EXPECT_TRUE(rank.lost().empty());
}

}  // namespace
}  // namespace foreload
