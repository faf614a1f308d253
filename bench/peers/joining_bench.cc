// SPDX-License-Identifier: Apache-2.0
//
// What it costs ranks to start: all of them as threads of this process that meet at a TCP port and
// tell each other what they do in a job, with a data set whose samples are spread over their disks.
// Once with everything from rank 0, once with ranks that pass it on; who sends how many bytes is
// counted where they arrive, with the frames around them.
//
//   joining_bench [RANKS [SAMPLES]]     no samples: the disks are empty
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/random.h"
#include "foreload/loader/held_text.h"
#include "foreload/peers/relay_tree.h"
#include "foreload/peers/rendezvous.h"
#include "foreload/peers/rendezvous_frames.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes kPatience{5};

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

uint16_t free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(fd, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return ntohs(address.sin_port);
}

struct Traffic {
  explicit Traffic(uint32_t ranks) : sent(ranks) {}
  std::atomic<uint64_t> questions = 0;
  std::vector<std::atomic<uint64_t>> sent;  // bytes, by rank
};

// What a rank gets from another, and puts there.
class Counted final : public Rendezvous {
 public:
  Counted(std::shared_ptr<Rendezvous> inner, Traffic& traffic, uint32_t rank, uint32_t other)
      : inner_(std::move(inner)), traffic_(traffic), rank_(rank), other_(other) {}
  Result<void> put(const std::string& key, const std::string& value) override {
    count(key, rank_ == other_ ? 0 : value.size(), 0);
    return inner_->put(key, value);
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    auto value = inner_->get(key, timeout);
    count(key, 0, value ? value->size() : 0);
    return value;
  }

 private:
  void count(const std::string& key, size_t put, size_t got) {
    if (rank_ == other_) return;
    ++traffic_.questions;
    traffic_.sent[rank_] += sizeof(peers::FrameStart) + key.size() + put;
    traffic_.sent[other_] += sizeof(peers::FrameStart) + key.size() + got;
  }

  const std::shared_ptr<Rendezvous> inner_;
  Traffic& traffic_;
  const uint32_t rank_;
  const uint32_t other_;
};

// A rendezvous with relays, of which what comes from the rank above is counted too.
class CountedRelays final : public Rendezvous {
 public:
  CountedRelays(std::shared_ptr<Rendezvous> inner, Traffic& traffic, uint32_t rank)
      : inner_(std::move(inner)) {
    if (auto from = inner_->above())
      above_ = std::make_shared<Counted>(std::move(from), traffic, rank, peers::rank_above(rank));
  }
  Result<void> put(const std::string& key, const std::string& value) override {
    return inner_->put(key, value);
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    return inner_->get(key, timeout);
  }
  std::shared_ptr<Rendezvous> above() override { return above_; }
  std::shared_ptr<Rendezvous> below() override { return inner_->below(); }

 private:
  const std::shared_ptr<Rendezvous> inner_;
  std::shared_ptr<Rendezvous> above_;
};

// What a rank says in each exchange, beside what its disks hold: as long as in a job over UCX.
const std::vector<std::pair<std::string, size_t>> kExchanges{
    {"facts", 200}, {"host", 80}, {"plan", 32}, {"ucx address", 250}};

// False if a rank failed.
bool meet(uint32_t ranks, const std::vector<std::string>& held, bool relays) {
  const uint16_t port = free_port();
  Traffic traffic(ranks);
  std::atomic<uint32_t> failed = 0;
  const auto join = [&](uint32_t rank) -> Result<void> {
    FORELOAD_TRY(std::shared_ptr<Rendezvous> place,
                 tcp_rendezvous("127.0.0.1", port, rank, kPatience));
    place = std::make_shared<Counted>(std::move(place), traffic, rank, 0);
    if (relays)
      place = std::make_shared<CountedRelays>(with_relays(place, rank, ranks, "127.0.0.1"), traffic,
                                              rank);
    for (const auto& [subject, bytes] : kExchanges) {
      const std::string told = std::string(bytes, 'x') + (subject == "facts" ? held[rank] : "");
      FORELOAD_TRY(const auto all, exchange(*place, subject, rank, ranks, told, kPatience));
      if (all.back().size() < bytes) return fail(ErrorKind::corrupt, "another value");
    }
    return check_in(*place, "end", rank, ranks, kPatience);
  };
  const auto begin = Clock::now();
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      if (const auto joined = join(rank); !joined && failed++ == 0)
        fmt::print(stderr, "rank {}: {}\n", rank, joined.error().message);
    });
  threads.clear();
  uint64_t sum = 0, most = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    sum += traffic.sent[rank];
    if (rank > 0) most = std::max<uint64_t>(most, traffic.sent[rank]);
  }
  fmt::print(
      "{}: {:.1f} MB in all, {:.2f} MB from rank 0, at most {:.2f} MB from another; {} "
      "questions, {:.2f} s\n",
      relays ? "passed on  " : "from rank 0", static_cast<double>(sum) / 1e6,
      static_cast<double>(traffic.sent[0]) / 1e6, static_cast<double>(most) / 1e6,
      traffic.questions.load(), since(begin));
  return failed == 0;
}

int run(uint32_t ranks, uint64_t samples) {
  std::vector<std::vector<Held>> held(ranks);
  for (uint64_t sample = 0; sample < samples; ++sample) {
    const auto owner = static_cast<uint32_t>(mix64(sample) % ranks);
    held[owner].push_back({sample, owner, 1});
  }
  std::vector<std::string> texts;
  size_t bytes = 0;
  for (const auto& of_rank : held) bytes += texts.emplace_back(held_text(of_rank, 2)).size();
  const auto begin = Clock::now();
  std::vector<Held> all;
  bool right = true;
  for (uint32_t rank = 0; rank < ranks; ++rank)
    right = read_held_text(texts[rank], rank, 2, samples, all) && right;
  fmt::print("{} ranks, {} samples: {:.2f} MB tell what the disks hold, decoded in {:.2f} s\n",
             ranks, samples, static_cast<double>(bytes) / 1e6, since(begin));
  right = right && all.size() == samples;
  for (const bool relays : {false, true}) right = meet(ranks, texts, relays) && right;
  return right ? 0 : 1;
}

}  // namespace
}  // namespace foreload

int main(int count, char** arguments) {
  const auto ranks = static_cast<uint32_t>(count > 1 ? std::atoi(arguments[1]) : 1024);
  const auto samples = static_cast<uint64_t>(count > 2 ? std::atoll(arguments[2]) : 1'281'167);
  rlimit files{};  // every rank has some connections
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  return foreload::run(ranks, samples);
}
