// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/probe.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <latch>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "foreload/base/hash.h"
#include "foreload/base/own_thread.h"
#include "foreload/base/random.h"
#include "foreload/formats/format.h"
#include "foreload/loader/probe_level.h"
#include "foreload/tiers/memory_copies.h"
#include "foreload/tiers/memory_limit.h"

namespace foreload {
namespace probing {

Result<double> blocking_rate(unsigned threads, Seconds time, const Blocking& request) {
  std::mutex mutex;  // guards the two below
  double bytes = 0;
  std::optional<Error> failed;
  std::atomic<bool> stop{false};
  TimeWindow window;  // set before the threads are let go
  std::latch ready(1);
  const auto work = [&](unsigned thread) {
    ready.wait();
    double mine = 0;
    for (uint64_t number = 0; !stop; ++number) {
      const auto begin = Clock::now();
      if (begin >= window.end) break;
      auto got = request(thread, number);
      if (!got) {
        stop = true;
        const std::scoped_lock lock(mutex);
        failed = std::move(got).error();
        return;
      }
      mine += window.share(begin, Clock::now(), *got);
    }
    const std::scoped_lock lock(mutex);
    bytes += mine;
  };
  std::vector<std::thread> crew;
  const auto join = [&crew] {
    for (std::thread& thread : crew) thread.join();
  };
  try {
    while (crew.size() + 1 < threads) {
      const auto number = static_cast<unsigned>(crew.size()) + 1;
      crew.push_back(start_own_thread("foreload-probe", [&work, number] { work(number); }));
    }
  } catch (const std::system_error&) {
    stop = true;
    ready.count_down();
    join();
    return fail(ErrorKind::unreadable,
                fmt::format("cannot measure with {} threads: the system refuses more than {}; "
                            "raise the limit of processes",
                            threads, crew.size() + 1));
  }
  const auto start = Clock::now();
  window = {start + std::chrono::duration_cast<Clock::duration>(time / 5),
            start + std::chrono::duration_cast<Clock::duration>(time)};
  ready.count_down();
  work(0);
  join();
  if (failed) return tl::unexpected(std::move(*failed));
  if (bytes > 0) return bytes / window.seconds();
  // Nobody had the CPU in all that time.
  return blocking_rate(threads, 2 * time, request);
}

Result<void> ProbeSteps::begin() {
  if (!settings_.progress || settings_.progress(begun_++, steps_)) return {};
  return fail(ErrorKind::cancelled, fmt::format("measuring of {} was cancelled", device_));
}

std::string whole_path(const std::filesystem::path& folder) {
  std::error_code ignored;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(folder, ignored), ignored);
}

std::string now_in_utc() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
}

}  // namespace probing

namespace {

namespace fs = std::filesystem;
using namespace probing;

// Bytes per second at which one thread fills a new memory tier, whose pages the system has yet to
// find and clear.
Result<double> filling_rate(bool shared, Seconds time) {
  constexpr uint64_t kMost = uint64_t{256} << 20;
  const uint64_t blocks = std::max<uint64_t>(1, std::min(kMost, memory_limit().bytes / 8) / kBlock);
  FORELOAD_TRY(const auto copies, MemoryCopies::create({blocks * kBlock, shared, kBlock}));
  const std::vector<std::byte> block(kBlock, std::byte{1});
  const auto begin = Clock::now();
  Seconds took{};
  for (uint64_t i = 0; i < blocks && took < time; ++i, took = Clock::now() - begin)
    copies->put({{i, i}}, block, checksum64(block), 0);
  return static_cast<double>(copies->payload()) / std::max(took.count(), 1e-9);
}

}  // namespace

Result<DeviceProfile> probe_memory(const ProbeSettings& settings) {
  constexpr std::array<unsigned, 3> kThreads{1, 2, 4};
  constexpr size_t kBlocks = 640;  // of 100 KiB: more than caches hold
  std::vector<Curve::Point> points;
  uint64_t done = 0;
  const auto go_on = [&]() -> Result<void> {
    if (!settings.progress || settings.progress(done++, 2 + kThreads.size())) return {};
    return fail(ErrorKind::cancelled, "measuring of memory was cancelled");
  };
  DeviceProfile device{.name = "memory", .kind = DeviceKind::memory};
  FORELOAD_CHECK(go_on());
  FORELOAD_TRY(device.write_rate, filling_rate(false, settings.time / 10));
  FORELOAD_CHECK(go_on());
  FORELOAD_TRY(device.shared_write_rate, filling_rate(true, settings.time / 10));
  const auto from = std::make_unique<std::byte[]>(kBlocks * kBlock);
  const auto to = std::make_unique<std::byte[]>(kBlocks * kBlock);
  // Pages that were never written are all the same page.
  std::memset(from.get(), 1, kBlocks * kBlock);
  std::memset(to.get(), 1, kBlocks * kBlock);
  for (const unsigned threads : kThreads) {
    FORELOAD_CHECK(go_on());
    FORELOAD_TRY(
        const double rate,
        blocking_rate(
            threads, settings.time / 10, [&](unsigned thread, uint64_t number) -> Result<uint64_t> {
              const uint64_t mixed = mix64(settings.seed ^ (number * 64 + thread));
              // Each thread writes blocks of its own.
              const size_t target = (mixed >> 32) % (kBlocks / threads) * threads + thread;
              std::memcpy(to.get() + target * kBlock, from.get() + mixed % kBlocks * kBlock,
                          kBlock);
              return kBlock;
            }));
    points.push_back({static_cast<double>(threads), rate});
  }
  FORELOAD_TRY(device.curve, Curve::create(std::move(points)));
  device.measured_at = now_in_utc();
  return device;
}

DeviceKind kind_of_path(const fs::path& path, const std::vector<std::string>& extensions) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return DeviceKind::source;
  return holds_samples(path, extensions) ? DeviceKind::source : DeviceKind::disk;
}

}  // namespace foreload
