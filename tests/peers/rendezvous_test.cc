// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

#include <gtest/gtest.h>

#include "../temporary_folder.h"
#include "patience.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;

// A port that was free a moment ago.
uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
  socklen_t size = sizeof address;
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

// The kinds, each as a function that gives a rank its object.
using Open = std::function<std::shared_ptr<Rendezvous>(uint32_t rank)>;
constexpr uint32_t kRelayedRanks = 16;
struct RendezvousKind {
  std::string name;
  std::function<Open()> make;
};

class RendezvousConformance : public testing::TestWithParam<RendezvousKind> {
 protected:
  Open open_ = GetParam().make();
};

template <class T>
T taken(Result<T> result) {
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return result ? std::move(*result) : T{};
}

std::shared_ptr<Rendezvous> relayed(uint16_t port, uint32_t rank, uint32_t ranks) {
  return with_relays(taken(tcp_rendezvous("127.0.0.1", port, rank, kPatience)), rank, ranks,
                     "127.0.0.1");
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, RendezvousConformance,
    testing::Values(RendezvousKind{"Folder",
                                   [] {
                                     const auto folder = std::make_shared<TemporaryFolder>();
                                     return Open([folder](uint32_t) {
                                       return taken(folder_rendezvous(folder->path(), "job"));
                                     });
                                   }},
                    RendezvousKind{"Tcp",
                                   [] {
                                     const uint16_t port = free_port();
                                     return Open([port](uint32_t rank) {
                                       return taken(
                                           tcp_rendezvous("127.0.0.1", port, rank, kPatience));
                                     });
                                   }},
                    RendezvousKind{"TcpWithRelays",
                                   [] {
                                     const uint16_t port = free_port();
                                     return Open([port](uint32_t rank) {
                                       return relayed(port, rank, kRelayedRanks);
                                     });
                                   }}),
    [](const auto& kind) { return kind.param.name; });

TEST_P(RendezvousConformance, ValuesAreSeenByAll) {
  const auto first = open_(0);
  const auto second = open_(1);
  const std::string odd("a\0b\n\xff/..", 8);
  ASSERT_TRUE(first->put("x/y 1", odd));
  ASSERT_TRUE(second->put("empty", ""));
  ASSERT_TRUE(second->put("long", std::string(kMostValueBytes, 'v')));
  for (Rendezvous* one : {first.get(), second.get()}) {
    EXPECT_EQ(taken(one->get("x/y 1", kPatience)), odd);
    EXPECT_EQ(taken(one->get("empty", kPatience)), "");
    EXPECT_EQ(taken(one->get("long", kPatience)), std::string(kMostValueBytes, 'v'));
  }
}

TEST_P(RendezvousConformance, GetWaits) {
  const auto first = open_(0);
  const auto second = open_(1);
  std::jthread late([&] { EXPECT_TRUE(first->put("key", "value")); });
  EXPECT_EQ(taken(second->get("key", kPatience)), "value");
}

TEST_P(RendezvousConformance, GetGivesUpAndMayAskAgain) {
  const auto first = open_(0);
  const auto second = open_(1);
  for (Rendezvous* one : {first.get(), second.get()}) {
    const auto got = one->get("never", milliseconds(20));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind, ErrorKind::cancelled);
    EXPECT_FALSE(one->get("never", milliseconds(0)));
  }
  ASSERT_TRUE(second->put("never", "after all"));
  EXPECT_EQ(taken(second->get("never", kPatience)), "after all");
}

// An answer that comes after its question was given up is not taken for that of the next one.
TEST_P(RendezvousConformance, LateAnswersAreNotMistaken) {
  const auto first = open_(0);
  const auto second = open_(1);
  EXPECT_FALSE(second->get("late", milliseconds(5)));
  ASSERT_TRUE(first->put("late", "came late"));
  ASSERT_TRUE(first->put("other", "another value"));
  EXPECT_EQ(taken(second->get("other", kPatience)), "another value");
  EXPECT_FALSE(second->get("never", milliseconds(5)));
  ASSERT_TRUE(second->put("own", "value"));
  EXPECT_EQ(taken(second->get("late", kPatience)), "came late");
}

TEST_P(RendezvousConformance, LookingOnceSeesWhatIsThere) {
  const auto first = open_(0);
  const auto second = open_(1);
  ASSERT_TRUE(first->put("key", "value"));
  for (Rendezvous* one : {first.get(), second.get()}) {
    EXPECT_EQ(taken(one->get("key", milliseconds(0))), "value");
    EXPECT_FALSE(one->get("never", milliseconds(0)));
  }
}

TEST_P(RendezvousConformance, TooLongIsRefused) {
  const auto first = open_(0);
  const auto second = open_(1);
  for (Rendezvous* one : {first.get(), second.get()}) {
    EXPECT_EQ(one->put("k", std::string(kMostValueBytes + 1, 'v')).error().kind,
              ErrorKind::invalid);
    EXPECT_EQ(one->put("", "v").error().kind, ErrorKind::invalid);
    EXPECT_EQ(one->get(std::string(kMostKeyBytes + 1, 'k'), kPatience).error().kind,
              ErrorKind::invalid);
  }
}

std::string value_of(uint32_t rank) {
  return std::string(500, 'v') + std::to_string(rank);
}

TEST_P(RendezvousConformance, SixteenRanksExchange) {
  const auto zero = open_(0);
  std::vector<std::jthread> threads;
  for (uint32_t r = 0; r < kRelayedRanks; ++r) {
    threads.emplace_back([&, r] {
      const auto own = r == 0 ? nullptr : open_(r);
      const auto values = taken(
          exchange(r == 0 ? *zero : *own, "addresses", r, kRelayedRanks, value_of(r), kPatience));
      ASSERT_EQ(values.size(), kRelayedRanks);
      for (uint32_t i = 0; i < kRelayedRanks; ++i) EXPECT_EQ(values[i], value_of(i));
    });
  }
  threads.clear();
}

TEST_P(RendezvousConformance, MissingRanksAreNamed) {
  const auto zero = open_(0);
  std::jthread four([&] {
    const auto own = open_(4);
    const auto values = exchange(*own, "addresses", 4, 9, "own", kPatience);
    ASSERT_FALSE(values);
    EXPECT_NE(values.error().message.find("1 to 3 and 5 to 8 are missing"), std::string::npos)
        << values.error().message;
  });
  // Rank 4 is there.
  ASSERT_TRUE(get_in_pieces(*zero, "addresses/4", kPatience));
  const auto values = exchange(*zero, "addresses", 0, 9, "own", milliseconds(50));
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().kind, ErrorKind::cancelled);
  EXPECT_NE(values.error().message.find("1 to 3 and 5 to 8 are missing"), std::string::npos)
      << values.error().message;
}

TEST_P(RendezvousConformance, LongValuesGoInPieces) {
  const auto zero = open_(0);
  const auto one = open_(1);
  std::string value;
  for (size_t i = 0; value.size() < 3 * kMostValueBytes; ++i)
    value.append(reinterpret_cast<const char*>(&i), sizeof i);
  for (const size_t bytes :
       {size_t{0}, size_t{1}, kMostValueBytes - 24, kMostValueBytes, value.size()}) {
    const std::string key = "long " + std::to_string(bytes);
    ASSERT_TRUE(put_in_pieces(*one, key, value.substr(0, bytes)));
    EXPECT_EQ(taken(get_in_pieces(*zero, key, kPatience)), value.substr(0, bytes));
  }
  ASSERT_TRUE(one->put("nonsense", "no length"));
  EXPECT_EQ(get_in_pieces(*zero, "nonsense", kPatience).error().kind, ErrorKind::corrupt);
}

TEST_P(RendezvousConformance, ExchangedValuesMayBeLong) {
  const auto zero = open_(0);
  const auto one = open_(1);
  const std::string long_one(2 * kMostValueBytes, 'x');
  std::jthread other([&] {
    EXPECT_EQ(taken(exchange(*one, "facts", 1, 2, long_one, kPatience))[0], "short");
    EXPECT_TRUE(check_in(*one, "sign", 1, 2, kPatience));
  });
  EXPECT_EQ(taken(exchange(*zero, "facts", 0, 2, "short", kPatience))[1], long_one);
  EXPECT_TRUE(check_in(*zero, "sign", 0, 2, kPatience));
}

TEST_P(RendezvousConformance, PartsDoNotMeet) {
  const std::shared_ptr<Rendezvous> zero = open_(0);
  const auto first = part_of(zero, "0.");
  const auto second = part_of(zero, "1.");
  ASSERT_TRUE(first->put("key", "first"));
  EXPECT_FALSE(second->get("key", milliseconds(0)));
  ASSERT_TRUE(second->put("key", "second"));
  EXPECT_EQ(taken(first->get("key", kPatience)), "first");
}

TEST_P(RendezvousConformance, WaitingCanBeInterrupted) {
  const auto part = part_of(open_(0), "", [calls = 0]() mutable { return calls++ == 0; });
  const auto got = part->get("never", std::chrono::hours(1));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::cancelled);
}

// Rank 0 is slow to tell anything, as where it still lists the data set.
TEST_P(RendezvousConformance, RankZeroThatSaysNothingIsNamed) {
  const auto zero = open_(0);
  const auto one = open_(1);
  const auto values = exchange(*one, "facts", 1, 3, "own", milliseconds(1));
  ASSERT_FALSE(values);
  EXPECT_NE(values.error().message.find("0 and 2 are missing"), std::string::npos)
      << values.error().message;
}

TEST(FolderRendezvous, JobsDoNotMeet) {
  const TemporaryFolder folder;
  const auto one = taken(folder_rendezvous(folder.path(), "one"));
  const auto other = taken(folder_rendezvous(folder.path(), "../other"));
  ASSERT_TRUE(one->put("key", "1"));
  EXPECT_FALSE(other->get("key", milliseconds(0)));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "one" / "key"));
}

TEST(FolderRendezvous, FolderThatCannotBeMade) {
  const auto made = folder_rendezvous("/proc/foreload", "job");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("/proc/foreload/job"), std::string::npos);
}

TEST(TcpRendezvous, NobodyThere) {
  const auto made = tcp_rendezvous("127.0.0.1", free_port(), 1, milliseconds(50));
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().kind, ErrorKind::unreadable);
  EXPECT_NE(made.error().message.find("127.0.0.1"), std::string::npos);
}

TEST(TcpRendezvous, RankZeroMayComeLater) {
  const uint16_t port = free_port();
  std::unique_ptr<Rendezvous> client;
  std::jthread early([&] { client = taken(tcp_rendezvous("127.0.0.1", port, 1, kPatience)); });
  const auto server = taken(tcp_rendezvous("127.0.0.1", port, 0, kPatience));
  early.join();
  ASSERT_TRUE(client->put("key", "value"));
  EXPECT_EQ(taken(server->get("key", kPatience)), "value");
}

TEST(TcpRendezvous, RankZeroGone) {
  const uint16_t port = free_port();
  auto server = taken(tcp_rendezvous("127.0.0.1", port, 0, kPatience));
  const auto client = taken(tcp_rendezvous("127.0.0.1", port, 1, kPatience));
  server.reset();
  const auto got = client->get("key", milliseconds(200));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().kind, ErrorKind::unreadable);
}

TEST(TcpRendezvous, SecondPutOfAnotherValueIsRefused) {
  const uint16_t port = free_port();
  const auto server = taken(tcp_rendezvous("127.0.0.1", port, 0, kPatience));
  const auto client = taken(tcp_rendezvous("127.0.0.1", port, 1, kPatience));
  ASSERT_TRUE(client->put("key", "value"));
  EXPECT_TRUE(client->put("key", "value"));
  EXPECT_FALSE(client->put("key", "other"));
  EXPECT_FALSE(server->put("key", "other"));
  EXPECT_EQ(taken(client->get("key", kPatience)), "value");
}

// What many ask for is one value in the store, and those who go away while they wait harm nobody.
TEST(TcpRendezvous, ManyWaitForOneLongValue) {
  const uint16_t port = free_port();
  const auto server = taken(tcp_rendezvous("127.0.0.1", port, 0, kPatience));
  const std::string value(1 << 20, 'v');
  std::vector<std::jthread> clients;
  for (uint32_t r = 1; r <= 32; ++r) {
    clients.emplace_back([&, r] {
      const auto client = taken(tcp_rendezvous("127.0.0.1", port, r, kPatience));
      ASSERT_TRUE(client->put("here/" + std::to_string(r), ""));
      if (r % 4 == 0) {
        EXPECT_FALSE(client->get("all", milliseconds(1)));
      } else {
        EXPECT_EQ(taken(client->get("all", kPatience)), value);
      }
    });
  }
  for (uint32_t r = 1; r <= 32; ++r)
    ASSERT_TRUE(server->get("here/" + std::to_string(r), kPatience));
  for (uint32_t r = 4; r <= 32; r += 4) clients[r - 1].join();
  ASSERT_TRUE(server->put("all", value));
  clients.clear();
}

// Counts what a rank gets from rank 0.
class Counted final : public Rendezvous {
 public:
  Counted(std::shared_ptr<Rendezvous> inner, std::atomic<size_t>& bytes)
      : inner_(std::move(inner)), bytes_(bytes) {}
  Result<void> put(const std::string& key, const std::string& value) override {
    return inner_->put(key, value);
  }
  Result<std::string> get(const std::string& key, milliseconds timeout) override {
    auto got = inner_->get(key, timeout);
    if (got) bytes_ += got->size();
    return got;
  }

 private:
  const std::shared_ptr<Rendezvous> inner_;
  std::atomic<size_t>& bytes_;
};

constexpr uint32_t kSix = 6;

// Six ranks exchange; rank 5 gets what rank 0 has for all from rank 1, which `passes_on` or does
// something else after it has given its value. Gives the bytes that rank 0 sent to rank 5.
size_t sent_to_rank_5(milliseconds timeout,
                      const std::function<void(std::shared_ptr<Rendezvous>&)>& passes_on) {
  const uint16_t port = free_port();
  const auto zero = relayed(port, 0, kSix);
  std::atomic<size_t> bytes = 0;
  const auto expect_values = [timeout](Rendezvous& own, uint32_t rank) {
    const auto values = taken(exchange(own, "facts", rank, kSix, value_of(rank), timeout));
    ASSERT_EQ(values.size(), kSix);
    for (uint32_t r = 0; r < kSix; ++r) EXPECT_EQ(values[r], value_of(r));
  };
  std::vector<std::jthread> threads;
  auto one = relayed(port, 1, kSix);
  if (passes_on) {
    EXPECT_TRUE(put_in_pieces(*one, "facts/1", value_of(1)));
    passes_on(one);
  } else {
    threads.emplace_back([&] { expect_values(*one, 1); });
  }
  for (const uint32_t r : {2u, 3u, 4u})
    threads.emplace_back([&, r] { expect_values(*relayed(port, r, kSix), r); });
  threads.emplace_back([&] {
    const auto counted =
        std::make_shared<Counted>(taken(tcp_rendezvous("127.0.0.1", port, 5, kPatience)), bytes);
    expect_values(*with_relays(counted, 5, kSix, "127.0.0.1"), 5);
  });
  expect_values(*zero, 0);
  threads.clear();
  return bytes;
}

TEST(Relays, LongAnswersComeFromTheRankAbove) {
  EXPECT_LT(sent_to_rank_5(kPatience, {}), 100u);
}

TEST(Relays, ARankAboveThatIsGoneIsNotWaitedFor) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_GT(sent_to_rank_5(10 * kPatience, [](auto& one) { one.reset(); }), 3000u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST(Relays, ARankAboveThatSaysNothingIsWaitedForAWhile) {
  EXPECT_GT(sent_to_rank_5(milliseconds(5000), [](auto&) {}), 3000u);
}

TEST(Relays, WrongBytesOfTheRankAboveAreNotTaken) {
  EXPECT_GT(sent_to_rank_5(kPatience,
                           [](auto& one) {
                             EXPECT_TRUE(put_in_pieces(*one->below(), "facts/all/long", "+1:x"));
                           }),
            3000u);
}

TEST(Relays, OthersMayOnlyRead) {
  const uint16_t port = free_port();
  const auto zero = relayed(port, 0, 6);
  const auto one = relayed(port, 1, 6);
  const auto address = taken(zero->get("relay/1", kPatience));
  ASSERT_TRUE(address.starts_with("127.0.0.1 ")) << address;
  const auto stranger = taken(tcp_rendezvous(
      "127.0.0.1", static_cast<uint16_t>(std::stoi(address.substr(10))), 1, kPatience));
  EXPECT_FALSE(stranger->put("key", "value"));
  ASSERT_TRUE(one->below()->put("key", "other"));
  EXPECT_EQ(taken(stranger->get("key", kPatience)), "other");
}

int connected_to(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval patience{20, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

TEST(TcpRendezvous, GarbageIsClosedAndHarmsNobody) {
  const uint16_t port = free_port();
  const auto server = taken(tcp_rendezvous("127.0.0.1", port, 0, kPatience));
  const auto client = taken(tcp_rendezvous("127.0.0.1", port, 1, kPatience));
  const std::vector<std::string> garbage{
      "GET / HTTP/1.1\r\n\r\n",
      std::string(100'000, 'F'),
      std::string("FLR1\x09\x01\0\0\0\0\0\0", 12),          // unknown kind
      std::string("FLR1\x00\xff\0\0\0\0\0\0", 12),          // a key that is too long
      std::string("FLR1\x00\x01\0\0\xff\xff\xff\xff", 12),  // a value that is too long
      std::string("FLR1\x00\x01\x01\0\0\0\0\0", 12),        // bits that must be zero
      std::string("FLR1\x00\x00\0\0\0\0\0\0", 12),          // no key
      std::string("FLR1\x03\x01\0\0\0\0\0\0k", 13),         // an answer
  };
  std::vector<int> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connected_to(port));
  for (const std::string& bytes : garbage) {
    const int fd = connected_to(port);
    (void)!::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char byte = 0;
    EXPECT_LE(::recv(fd, &byte, 1, 0), 0) << "an answer to garbage";
    EXPECT_NE(errno, EAGAIN) << "the connection was not closed";
    ::close(fd);
    errno = 0;
  }
  ASSERT_TRUE(client->put("key", "value"));
  EXPECT_EQ(taken(server->get("key", kPatience)), "value");
  for (const int fd : silent) ::close(fd);
}

}  // namespace
}  // namespace foreload
