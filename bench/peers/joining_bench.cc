// SPDX-License-Identifier: Apache-2.0
//
// What it costs ranks to tell each other what their disks hold: all of them as threads of this
// process that meet at a TCP port, with a data set whose samples are spread over their disks.
//
//   joining_bench [RANKS [SAMPLES]]
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "foreload/base/random.h"
#include "foreload/loader/held_text.h"
#include "foreload/peers/rendezvous.h"

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

// Counts what passes between a rank and the rendezvous.
class Counted final : public Rendezvous {
 public:
  Counted(std::unique_ptr<Rendezvous> inner, std::atomic<uint64_t>& calls,
          std::atomic<uint64_t>& bytes)
      : inner_(std::move(inner)), calls_(calls), bytes_(bytes) {}
  Result<void> put(const std::string& key, const std::string& value) override {
    ++calls_;
    bytes_ += value.size();
    return inner_->put(key, value);
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    ++calls_;
    auto value = inner_->get(key, timeout);
    if (value) bytes_ += value->size();
    return value;
  }

 private:
  const std::unique_ptr<Rendezvous> inner_;
  std::atomic<uint64_t>& calls_;
  std::atomic<uint64_t>& bytes_;
};

int run(uint32_t ranks, uint64_t samples) {
  std::vector<std::vector<Held>> held(ranks);
  for (uint64_t sample = 0; sample < samples; ++sample) {
    const auto owner = static_cast<uint32_t>(mix64(sample) % ranks);
    held[owner].push_back({sample, owner, 1});
  }
  const uint16_t port = free_port();
  std::atomic<uint64_t> calls = 0, bytes = 0;
  std::atomic<uint32_t> failed = 0;
  uint64_t told = 0;
  double decoding = 0;
  auto meet = [&](uint32_t rank) {
    auto place = tcp_rendezvous("127.0.0.1", port, rank, kPatience);
    if (!place) {
      ++failed;
      return;
    }
    Counted counted(std::move(*place), calls, bytes);
    const auto texts = exchange(counted, "facts", rank, ranks, held_text(held[rank], 2), kPatience);
    if (!texts || !check_in(counted, "end", rank, ranks, kPatience)) {
      ++failed;
      return;
    }
    if (rank != ranks - 1) return;  // every rank decodes, but not all in one memory
    const auto begin = Clock::now();
    std::vector<Held> all;
    for (uint32_t other = 0; other < ranks; ++other) {
      told += (*texts)[other].size();
      if (!read_held_text((*texts)[other], other, 2, samples, all)) ++failed;
    }
    if (all.size() != samples) ++failed;
    decoding = since(begin);
  };
  const auto begin = Clock::now();
  std::vector<std::jthread> threads;
  for (uint32_t rank = 0; rank < ranks; ++rank) threads.emplace_back(meet, rank);
  threads.clear();
  fmt::print(
      "{} ranks, {} samples: {:.2f} s in all; {:.2f} MB tell everything ({:.1f} bits a sample), "
      "decoded in {:.2f} s; {} questions, {:.0f} MB through the rendezvous\n",
      ranks, samples, since(begin), static_cast<double>(told) / 1e6,
      8.0 * static_cast<double>(told) / static_cast<double>(samples), decoding, calls.load(),
      static_cast<double>(bytes) / 1e6);
  if (failed > 0) fmt::print(stderr, "{} ranks failed\n", failed.load());
  return failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace foreload

int main(int count, char** arguments) {
  const auto ranks = static_cast<uint32_t>(count > 1 ? std::atoi(arguments[1]) : 1024);
  const auto samples = static_cast<uint64_t>(count > 2 ? std::atoll(arguments[2]) : 1'281'167);
  return foreload::run(ranks, samples);
}
