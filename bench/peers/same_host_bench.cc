// SPDX-License-Identifier: Apache-2.0
//
// Samples of another rank on the same host, read in place, against memcpy of the same size: another
// process owns copies in memory, this one maps it and copies samples out in a random order,
// checksums and all, as fetch does. memcpy copies from memory of this process, in the same order,
// to the same buffers. Both take turns, a round each, so that what else the machine does meets
// both.
//   same_host_bench [--bytes N] [--samples N] [--rounds N] [--json]
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/base/random.h"
#include "foreload/peers/shared_memory.h"
#include "foreload/tiers/memory_copies.h"
#include "foreload/tiers/memory_view.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  size_t bytes = 100 << 10;
  uint64_t samples = 2000;  // far more than any cache holds
  unsigned rounds = 9;
  bool json = false;
};

constexpr size_t kBuffers = 64;  // like a batch being filled

[[noreturn]] void fail_with(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

template <class T>
T good(Result<T> result) {
  if (!result) fail_with(result.error().message);
  return std::move(*result);
}

std::vector<std::byte> bytes_of(uint64_t sample, size_t size) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; i += 8) {
    const uint64_t word = mix64(sample * 1'000'003 + i + 1);
    std::memcpy(bytes.data() + i, &word, std::min<size_t>(8, size - i));
  }
  return bytes;
}

CopyKey key_of(uint64_t sample) {
  return {{sample, mix64(sample)}, 0};
}

[[noreturn]] void own(const std::string& job, const Options& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto copies =
      good(MemoryCopies::create({options.samples * options.bytes, true, options.bytes}));
  for (uint64_t sample = 0; sample < options.samples; ++sample) {
    const auto bytes = bytes_of(sample, options.bytes);
    copies->put(key_of(sample), bytes, checksum64(bytes), 0);
  }
  const auto shared = good(SharedMemory::open(job, 0));
  if (auto published = shared->publish(copies->memory()); !published)
    fail_with(published.error().message);
  for (;;) ::pause();
}

// Aligned as the engine's memory for batches is.
struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;
Memory aligned_memory(size_t bytes) {
  const size_t page = 4096;
  auto* memory =
      static_cast<std::byte*>(std::aligned_alloc(page, (bytes + page - 1) / page * page));
  if (memory == nullptr) fail_with("out of memory");
  std::memset(memory, 0, bytes);
  return Memory(memory);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Gigabytes (10^9 bytes) a second of copying every sample once, in an order of the round's own.
template <class Copy>
double one_round(const Options& options, uint64_t round, std::byte* buffers, const Copy& copy) {
  std::vector<uint64_t> order(options.samples);
  for (uint64_t i = 0; i < options.samples; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [round](uint64_t a, uint64_t b) {
    return mix64(a + round * 7919) < mix64(b + round * 7919);
  });
  const auto begin = Clock::now();
  for (uint64_t i = 0; i < options.samples; ++i)
    copy(order[i], std::span(buffers + i % kBuffers * options.bytes, options.bytes));
  const std::chrono::duration<double> took = Clock::now() - begin;
  return static_cast<double>(options.samples * options.bytes) / took.count() / 1e9;
}

int run(const Options& options) {
  const std::string job = "same host bench " + std::to_string(::getpid());
  const pid_t owner = ::fork();
  if (owner == 0) own(job, options);
  const auto shared = good(SharedMemory::open(job, 1));
  const auto memory = good(shared->fetch(0, std::chrono::seconds(60)));
  const auto view = good(MemoryView::map(memory.get()));
  const Memory plain = aligned_memory(options.samples * options.bytes);
  for (uint64_t sample = 0; sample < options.samples; ++sample) {
    const auto bytes = bytes_of(sample, options.bytes);
    std::memcpy(plain.get() + sample * options.bytes, bytes.data(), bytes.size());
  }
  const Memory buffers = aligned_memory(kBuffers * options.bytes);

  uint64_t misses = 0;
  const auto in_place = [&](uint64_t sample, std::span<std::byte> into) {
    misses += view->get(key_of(sample), into.size(), into) == Copied::hit ? 0 : 1;
  };
  const auto copied = [&](uint64_t sample, std::span<std::byte> into) {
    std::memcpy(into.data(), plain.get() + sample * options.bytes, into.size());
  };
  // The first time each page is mapped; told apart, because it happens once a run.
  const double first = one_round(options, 0, buffers.get(), in_place);
  one_round(options, 0, buffers.get(), copied);
  std::vector<double> ours;
  std::vector<double> theirs;
  for (uint64_t round = 1; round <= options.rounds; ++round) {
    ours.push_back(one_round(options, round, buffers.get(), in_place));
    theirs.push_back(one_round(options, round, buffers.get(), copied));
  }
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  if (misses > 0) fail_with(std::to_string(misses) + " samples were not read as they are");
  const double ratio = median(ours) / median(theirs);
  std::printf(options.json
                  ? "{\"ratio\": %.3f, \"same_host_gb_per_second\": %.2f, "
                    "\"memcpy_gb_per_second\": %.2f, \"first_read_gb_per_second\": %.2f, "
                    "\"bytes\": %zu, \"rounds\": %u}\n"
                  : "ratio %.2f: same host %.2f GB/s, memcpy %.2f GB/s; the first time %.2f GB/s; "
                    "%zu bytes, medians of %u rounds\n",
              ratio, median(ours), median(theirs), first, options.bytes, options.rounds);
  return 0;
}

}  // namespace
}  // namespace foreload

int main(int argc, char** argv) {
  foreload::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--json") {
      options.json = true;
    } else if (i + 1 < argc && option == "--bytes") {
      options.bytes = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && option == "--samples") {
      options.samples = std::strtoull(argv[++i], nullptr, 10);
    } else if (i + 1 < argc && option == "--rounds") {
      options.rounds = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else {
      std::fprintf(stderr, "usage: %s [--bytes N] [--samples N] [--rounds N] [--json]\n", argv[0]);
      return 2;
    }
  }
  if (options.bytes == 0 || options.samples == 0 || options.rounds == 0) return 2;
  return foreload::run(options);
}
