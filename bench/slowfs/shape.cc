// SPDX-License-Identifier: Apache-2.0
#include "shape.h"

#include <time.h>

#include <algorithm>

#include <fmt/format.h>

#include "foreload/base/random.h"

namespace foreload::slowfs {
namespace {

// A piece of a read occupies the channel that long: below, sleeping costs more than it shapes.
constexpr double kPieceSeconds = 0.001;
constexpr double kLeastPiece = 4096;  // bytes

Clock::duration milliseconds(double count) {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::milli>(count));
}

void sleep_until(Time time) {
  const auto since = time.time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  timespec wake{};
  wake.tv_sec = seconds.count();
  wake.tv_nsec = std::chrono::nanoseconds(since - seconds).count();
  while (Clock::now() < time) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr);
}

// How much longer the read with this number takes; most often not at all.
double stall_ms(const Settings& settings, uint64_t read) {
  if (settings.stall_share <= 0) return 0;
  const auto words = philox(settings.seed, read);
  constexpr double kWord = 4294967296.0;
  if (words[0] / kWord >= settings.stall_share) return 0;
  return settings.stall_low_ms +
         words[1] / kWord * (settings.stall_high_ms - settings.stall_low_ms);
}

}  // namespace

void Counters::reset() {
  for (auto* counter : {&opens, &reads, &read_bytes, &reads_at_end, &stats, &lookups, &listings,
                        &list_requests, &stalls, &most_in_flight})
    *counter = 0;
}

Shape::Shape(Settings settings)
    : settings_(std::make_shared<const Settings>(std::move(settings))) {}

std::shared_ptr<const Settings> Shape::settings() const {
  const std::lock_guard lock(settings_lock_);
  return settings_;
}

void Shape::open(Time arrival) {
  ++counters_.opens;
  sleep_until(arrival + milliseconds(settings()->open_ms));
}

void Shape::stat(Time arrival) {
  ++counters_.stats;
  sleep_until(arrival + milliseconds(settings()->stat_ms));
}

void Shape::list(Time arrival) {
  ++counters_.list_requests;
  sleep_until(arrival + milliseconds(settings()->list_ms));
}

void Shape::lookup(Time arrival) {
  ++counters_.lookups;
  const double cost = settings()->lookup_ms;
  if (cost > 0) sleep_until(arrival + milliseconds(cost));
}

void Shape::read(Time arrival, uint64_t bytes) {
  // A client of a network file system knows a file's size and does not ask beyond it; the kernel
  // asks here because nothing is cached, and that must not count against programs that read until
  // they are told that there is no more.
  if (bytes == 0) {
    ++counters_.reads_at_end;
    return;
  }
  const uint64_t read_number = counters_.reads++;
  counters_.read_bytes += bytes;
  const uint64_t in_flight = ++counters_.in_flight;
  uint64_t most = counters_.most_in_flight;
  while (most < in_flight && !counters_.most_in_flight.compare_exchange_weak(most, in_flight)) {
  }
  const auto current = settings();
  const double stall = stall_ms(*current, read_number);
  if (stall > 0) ++counters_.stalls;
  Time ready = arrival + milliseconds(current->read_ms + stall);
  sleep_until(ready);
  for (uint64_t left = bytes; left > 0;) {
    const Piece piece = reserve(ready, left);
    left -= piece.bytes;
    ready = piece.end;
    sleep_until(ready);
  }
  --counters_.in_flight;
}

Shape::Piece Shape::reserve(Time ready, uint64_t left) {
  const auto current = settings();
  const double rate = current->rate(counters_.in_flight);
  if (rate <= 0) return {left, ready};
  const auto most = static_cast<uint64_t>(std::max(kLeastPiece, rate * kPieceSeconds));
  const uint64_t bytes = std::min(left, most);
  const auto taken = milliseconds(1e3 * static_cast<double>(bytes) / rate);
  const std::lock_guard lock(channel_lock_);
  channel_free_ = std::max(channel_free_, ready - milliseconds(current->burst_ms)) + taken;
  return {bytes, std::max(channel_free_, ready)};
}

Result<void> Shape::command(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    while (!line.empty() && line.back() == ' ') line.remove_suffix(1);
    if (line.empty()) continue;
    if (line == "reset") {
      counters_.reset();
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos)
      return fail(ErrorKind::invalid,
                  fmt::format("cannot execute '{}': write reset, or NAME=VALUE", line));
    const std::lock_guard lock(settings_lock_);
    auto changed = std::make_shared<Settings>(*settings_);
    FORELOAD_CHECK(change(*changed, line.substr(0, equals), line.substr(equals + 1)));
    settings_ = std::move(changed);
  }
  return {};
}

std::string Shape::json() const {
  const Counters& c = counters_;
  return fmt::format(
      R"({{"opens": {}, "reads": {}, "read_bytes": {}, "reads_at_end": {}, "stats": {}, )"
      R"("lookups": {}, "listings": {}, "list_requests": {}, "stalls": {}, "in_flight": {}, )"
      R"("most_in_flight": {}, "settings": {}}})"
      "\n",
      c.opens.load(), c.reads.load(), c.read_bytes.load(), c.reads_at_end.load(), c.stats.load(),
      c.lookups.load(), c.listings.load(), c.list_requests.load(), c.stalls.load(),
      c.in_flight.load(), c.most_in_flight.load(), settings()->json());
}

}  // namespace foreload::slowfs
