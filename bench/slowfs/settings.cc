// SPDX-License-Identifier: Apache-2.0
#include "settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "foreload/base/bytes.h"

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
      R"("read-ms": {}, "stat-ms": {}, "list-ms": {}, "stall-share": {}, "stall-ms": [{}, {}], )"
      R"("seed": {}}})",
      bandwidth, best_streams, points, burst_ms, open_ms, read_ms, stat_ms, list_ms, stall_share,
      stall_low_ms, stall_high_ms, seed);
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
      {"stall-share", "share of the reads that stall, from 0 to 1 (0)"},
      {"stall-ms", "how long they do, LOW:HIGH"},
      {"seed", "which reads stall (0)"},
  };
  return names;
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
