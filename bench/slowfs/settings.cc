// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/random.h"

namespace foreload::slowfs {
namespace {

Result<double> parse_number(std::string_view name, std::string_view text, double most) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= 0 && value <= most)
    return value;
  return fail(ErrorKind::invalid,
              fmt::format("{} is '{}': give a number from 0 to {}", name, text, most));
}

Result<uint64_t> parse_count(std::string_view name, std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return fail(ErrorKind::invalid, fmt::format("{} is '{}': give a whole number", name, text));
}

// 1:100MB,2:130MB,4:150MB
Result<std::vector<Settings::Point>> parse_curve(std::string_view text) {
  std::vector<Settings::Point> curve;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const size_t colon = item.find(':');
    if (colon == std::string_view::npos)
      return fail(ErrorKind::invalid,
                  fmt::format("curve has '{}': write it like 1:100MB,4:150MB", item));
    FORELOAD_TRY(const uint64_t streams, parse_count("curve", item.substr(0, colon)));
    FORELOAD_TRY(const uint64_t bandwidth, parse_bytes(item.substr(colon + 1)));
    const auto point =
        Settings::Point{static_cast<double>(streams), static_cast<double>(bandwidth)};
    if (streams == 0 || bandwidth == 0 || (!curve.empty() && curve.back().streams >= point.streams))
      return fail(
          ErrorKind::invalid,
          fmt::format("curve has '{}': streams must ascend from 1, and no bandwidth may be 0",
                      item));
    curve.push_back(point);
  }
  return curve;
}

constexpr double kLongestMs = 3600'000;
constexpr double kLongestSeconds = 365 * 86400.0;
constexpr uint64_t kMostServerThreads = 1024;

Result<uint64_t> parse_from_one(std::string_view name, std::string_view text, uint64_t most) {
  FORELOAD_TRY(const uint64_t value, parse_count(name, text));
  if (value >= 1 && value <= most) return value;
  return fail(ErrorKind::invalid,
              fmt::format("{} is '{}': give a whole number from 1 to {}", name, text, most));
}

}  // namespace

double Settings::rate(uint64_t streams) const {
  const auto top = static_cast<double>(bandwidth);
  const auto now = static_cast<double>(std::max<uint64_t>(streams, 1));
  if (curve.empty()) {
    if (best_streams == 0) return top;
    // Every stream brings its share up to the best number; four times as many halve the bandwidth.
    const auto best = static_cast<double>(best_streams);
    if (now <= best) return top * now / best;
    return top * (1 - 0.5 * std::min(1.0, (now - best) / (3 * best)));
  }
  const auto after = std::find_if(curve.begin(), curve.end(),
                                  [now](const Point& point) { return point.streams >= now; });
  if (after == curve.end()) return curve.back().bandwidth;
  if (after == curve.begin()) return after->bandwidth;
  const Point& before = *(after - 1);
  const double share = (now - before.streams) / (after->streams - before.streams);
  return before.bandwidth + share * (after->bandwidth - before.bandwidth);
}

std::string Settings::json() const {
  std::string points;
  for (const Point& point : curve)
    points += fmt::format("{}[{}, {}]", points.empty() ? "" : ", ", point.streams, point.bandwidth);
  return fmt::format(
      R"({{"bandwidth": {}, "best-streams": {}, "curve": [{}], "burst-ms": {}, "open-ms": {}, )"
      R"("read-ms": {}, "stat-ms": {}, "list-ms": {}, "lookup-ms": {}, )"
      R"("server-threads": {}, "name-seconds": {}, "attr-seconds": {}, "page-cache": {}, )"
      R"("stall-share": {}, "stall-ms": [{}, {}], )"
      R"("seed": {}}})",
      bandwidth, best_streams, points, burst_ms, open_ms, read_ms, stat_ms, list_ms, lookup_ms,
      server_threads, name_seconds, attr_seconds, page_cache, stall_share, stall_low_ms,
      stall_high_ms, seed);
}

const std::vector<SettingName>& setting_names() {
  static const std::vector<SettingName> names{
      {"bandwidth", "bytes per second of all reads together, like 60MB; 0: no limit (0)"},
      {"best-streams",
       "reads in flight at which the bandwidth is reached; more and fewer get less"},
      {"curve", "bandwidth by reads in flight instead, like 1:100MB,4:150MB,8:120MB"},
      {"burst-ms", "how much of the past an idle channel makes up for (0)"},
      {"open-ms", "what opening a file costs (0)"},
      {"read-ms", "what a read request costs besides its bytes (0)"},
      {"stat-ms", "what reading attributes costs (0)"},
      {"list-ms", "what each request for names of a folder costs (0)"},
      {"lookup-ms", "what each component of a path costs that the kernel asks for (0)"},
      {"server-threads", "requests served at once, fixed when mounting (1024)"},
      {"name-seconds", "how long the kernel may believe that a name exists (a year)"},
      {"attr-seconds", "how long it may keep attributes (0)"},
      {"page-cache", "1: it may keep contents while a file is open, and read ahead (0)"},
      {"stall-share", "share of the reads that stall, from 0 to 1 (0)"},
      {"stall-ms", "how long they do, LOW:HIGH"},
      {"seed", "which reads stall (0)"},
  };
  return names;
}

// Every latency is drawn so that each order of magnitude is as likely as the next.
Settings draw_settings(uint64_t number) {
  uint64_t drawn = 0;
  const auto unit = [&] { return philox(number, drawn++)[0] / 4294967296.0; };
  const auto between = [&](double low, double high) { return low * std::pow(high / low, unit()); };
  const auto rounded = [&](double value) { return std::round(value * 100) / 100; };
  Settings settings;
  settings.server_threads = static_cast<uint64_t>(std::round(between(4, 64)));
  settings.bandwidth = static_cast<uint64_t>(between(20, 120)) * 1'000'000;
  settings.open_ms = rounded(between(0.3, 8));
  settings.read_ms = rounded(between(0.3, 4));
  settings.stat_ms = rounded(between(0.1, 1));
  settings.lookup_ms = rounded(between(0.1, 1));
  settings.list_ms = rounded(between(0.5, 5));
  settings.name_seconds = unit() < 0.5 ? 0 : 1;
  settings.attr_seconds = unit() < 0.5 ? 0 : 1;
  settings.page_cache = unit() < 0.5 ? 0 : 1;
  return settings;
}

Result<void> change(Settings& settings, std::string_view name, std::string_view value) {
  auto take = [&](auto& field, auto parsed) -> Result<void> {
    if (!parsed) return tl::unexpected(std::move(parsed).error());
    field = *std::move(parsed);
    return {};
  };
  if (name == "bandwidth") return take(settings.bandwidth, parse_bytes(value));
  if (name == "best-streams") return take(settings.best_streams, parse_count(name, value));
  if (name == "curve") return take(settings.curve, parse_curve(value));
  if (name == "burst-ms") return take(settings.burst_ms, parse_number(name, value, kLongestMs));
  if (name == "open-ms") return take(settings.open_ms, parse_number(name, value, kLongestMs));
  if (name == "read-ms") return take(settings.read_ms, parse_number(name, value, kLongestMs));
  if (name == "stat-ms") return take(settings.stat_ms, parse_number(name, value, kLongestMs));
  if (name == "list-ms") return take(settings.list_ms, parse_number(name, value, kLongestMs));
  if (name == "lookup-ms") return take(settings.lookup_ms, parse_number(name, value, kLongestMs));
  if (name == "server-threads")
    return take(settings.server_threads, parse_from_one(name, value, kMostServerThreads));
  if (name == "name-seconds")
    return take(settings.name_seconds, parse_number(name, value, kLongestSeconds));
  if (name == "attr-seconds")
    return take(settings.attr_seconds, parse_number(name, value, kLongestSeconds));
  if (name == "page-cache") return take(settings.page_cache, parse_count(name, value));
  if (name == "stall-share") return take(settings.stall_share, parse_number(name, value, 1));
  if (name == "seed") return take(settings.seed, parse_count(name, value));
  if (name == "stall-ms") {
    const size_t colon = std::min(value.find(':'), value.size());
    FORELOAD_TRY(const double low, parse_number(name, value.substr(0, colon), kLongestMs));
    const std::string_view rest = colon < value.size() ? value.substr(colon + 1) : value;
    FORELOAD_TRY(const double high, parse_number(name, rest, kLongestMs));
    if (low > high)
      return fail(ErrorKind::invalid, fmt::format("stall-ms is '{}': write it LOW:HIGH", value));
    settings.stall_low_ms = low;
    settings.stall_high_ms = high;
    return {};
  }
  return fail(ErrorKind::invalid, fmt::format("there is no setting '{}'", name));
}

}  // namespace foreload::slowfs
