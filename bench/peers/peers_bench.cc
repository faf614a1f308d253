// SPDX-License-Identifier: Apache-2.0
//
// Peer reads over UCX between two processes on the loopback interface, as ranks do them: a request,
// a reply with a sample, several requests under way. The process forks; the child serves.
//   peers_bench [--bytes N] [--seconds S] [--in-flight N] [--json]
// `run.py pair` compares the figure with ucx_perftest's on the same pair.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <future>
#include <mutex>
#include <string>
#include <vector>

#include "foreload/base/cpus.h"
#include "foreload/peers/secret.h"
#include "foreload/peers/transport.h"
#include "foreload/peers/wire.h"

namespace foreload {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  size_t bytes = 100 << 10;
  double seconds = 3;
  uint64_t in_flight = 8;
  bool json = false;
};

TransportSettings settings_of(uint32_t rank, const std::filesystem::path& folder,
                              const JobSecret& secret) {
  TransportSettings settings;
  settings.rank = rank;
  settings.ranks = 2;
  settings.interface = "lo";
  settings.secret = secret;
  settings.rendezvous = std::move(*folder_rendezvous(folder, "bench"));
  settings.components = FORELOAD_BENCH_COMPONENTS;
  return settings;
}

std::unique_ptr<Transport> joined(const TransportSettings& settings, TransportCalls calls) {
  auto transport = load_transport("ucx", settings, std::move(calls));
  if (transport) return std::move(*transport);
  std::fprintf(stderr, "%s\n", transport.error().message.c_str());
  std::exit(1);
}

// Answers every request with the same sample, until killed.
[[noreturn]] void serve(const TransportSettings& settings, size_t bytes) {
  std::vector<std::byte> sample(bytes, std::byte{7});
  std::promise<Transport*> made;
  const std::shared_future<Transport*> transport = made.get_future().share();
  TransportCalls calls;
  calls.incoming = [](auto&&...) { return PayloadPlace{}; };
  calls.arrived = [&](uint32_t from, std::span<const std::byte> header, auto&&...) {
    const auto message = parse_message(header);
    if (!message || !std::holds_alternative<wire::Request>(*message)) return;
    const auto reply = encode(
        wire::Reply{std::get<wire::Request>(*message).request, wire::ReplyStatus::here, 1, 2});
    transport.get()->send(from, {1, reply, sample, nullptr});
  };
  calls.sent = [](uint64_t, bool) {};
  calls.lost = [](uint32_t, const std::string&) {};
  const auto own = joined(settings, std::move(calls));
  made.set_value(own.get());
  for (;;) ::pause();
}

struct Figures {
  uint64_t replies = 0;
  double seconds = 0;
  double processor_seconds = 0;
  std::vector<double> latencies_us;  // of a request, one at a time
};

// Keeps so many requests under way for so long.
Figures ask(const TransportSettings& settings, const Options& options) {
  std::vector<std::vector<std::byte>> slots(options.in_flight,
                                            std::vector<std::byte>(options.bytes));
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<uint64_t> replies = 0;
  std::atomic<bool> asking = true;
  Transport* transport = nullptr;
  const auto request = [&](uint64_t number) {
    const auto header = encode(wire::Request{number, number});
    transport->send(1, {number, header, {}, nullptr});
  };
  TransportCalls calls;
  calls.incoming = [&](uint32_t, std::span<const std::byte> header, uint64_t) {
    const auto message = parse_message(header);
    const uint64_t slot = std::get<wire::Reply>(*message).request % slots.size();
    return PayloadPlace{slots[slot].data(), nullptr};
  };
  calls.arrived = [&](uint32_t, std::span<const std::byte> header, auto&&...) {
    const auto message = parse_message(header);
    ++replies;
    if (asking) {
      request(std::get<wire::Reply>(*message).request + slots.size());
    } else {
      const std::scoped_lock lock(mutex);
      changed.notify_all();
    }
  };
  calls.sent = [](uint64_t, bool) {};
  calls.lost = [](uint32_t, const std::string& why) {
    std::fprintf(stderr, "the other process is lost: %s\n", why.c_str());
    std::_Exit(1);
  };
  const auto own = joined(settings, std::move(calls));
  transport = own.get();

  Figures figures;
  const auto wait_for = [&](uint64_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return replies >= count; });
  };
  asking = false;
  for (int i = 0; i < 200; ++i) {
    const auto start = Clock::now();
    request(static_cast<uint64_t>(i));
    wait_for(static_cast<uint64_t>(i) + 1);
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    figures.latencies_us.push_back(took.count());
  }
  asking = true;
  for (uint64_t i = 0; i < options.in_flight; ++i) request(i);
  ::usleep(200'000);  // warm
  const uint64_t before = replies;
  const double processor_before = cpu_seconds();
  const auto start = Clock::now();
  ::usleep(static_cast<useconds_t>(1e6 * options.seconds));
  figures.replies = replies - before;
  figures.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  figures.processor_seconds = cpu_seconds() - processor_before;
  asking = false;
  return figures;
}

int run(const Options& options) {
  std::string name = (std::filesystem::temp_directory_path() / "foreload-XXXXXX").string();
  const std::filesystem::path folder = ::mkdtemp(name.data());
  const auto secret = draw_secret();
  if (!secret) return 1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(settings_of(1, folder, *secret), options.bytes);
  }
  Figures figures = ask(settings_of(0, folder, *secret), options);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  std::filesystem::remove_all(folder);
  std::sort(figures.latencies_us.begin(), figures.latencies_us.end());
  const double megabytes =
      1e-6 * static_cast<double>(figures.replies * options.bytes) / figures.seconds;
  const double median = figures.latencies_us[figures.latencies_us.size() / 2];
  const double processor = figures.processor_seconds / figures.seconds;
  std::printf(
      options.json
          ? "{\"bytes\": %zu, \"in_flight\": %zu, \"megabytes_per_second\": %.1f, "
            "\"median_latency_us\": %.1f, \"processors_of_the_asker\": %.2f}\n"
          : "%zu bytes, %zu under way: %.1f MB/s; alone %.1f us a request; %.2f processors\n",
      options.bytes, static_cast<size_t>(options.in_flight), megabytes, median, processor);
  return 0;
}

}  // namespace
}  // namespace foreload

int main(int argc, char** argv) {
  foreload::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : "";
    if (word == "--json") {
      options.json = true;
    } else if (word == "--bytes") {
      options.bytes = std::strtoull(value, nullptr, 10), ++i;
    } else if (word == "--seconds") {
      options.seconds = std::atof(value), ++i;
    } else if (word == "--in-flight") {
      options.in_flight = std::strtoull(value, nullptr, 10), ++i;
    } else {
      std::fprintf(stderr,
                   "usage: peers_bench [--bytes N] [--seconds S] [--in-flight N] [--json]\n");
      return 2;
    }
  }
  return foreload::run(options);
}
