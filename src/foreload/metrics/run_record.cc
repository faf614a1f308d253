// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/run_record.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreload {
namespace {

using RecordJson = nlohmann::ordered_json;

constexpr std::array<const char*, 5> kPlaces{"memory", "disk", "peer", "source", "staging"};
// Moments are a second apart at first and fifteen at most.
constexpr double kLeastInterval = 1, kMostInterval = 15, kMomentsOfARun = 300;
constexpr uint64_t kCurvePoints = 60;  // of an epoch
// Kept for text().
constexpr size_t kEpochsKept = 200, kMomentsKept = 1000;
constexpr size_t kPeersNamed = 64;

// Four digits are enough for a picture.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}
double milli(double value) {
  return std::round(value * 1e3) / 1e3;
}

RecordJson parse(std::string_view text) {
  RecordJson json = RecordJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : RecordJson::object();
}

double number_of(const RecordJson& json, const std::string& key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}
uint64_t count_of(const RecordJson& json, const std::string& key) {
  return static_cast<uint64_t>(std::max(0.0, number_of(json, key)));
}
std::vector<RecordJson> list_of(const RecordJson& json, const std::string& key) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_array()) return {};
  return std::vector<RecordJson>(found->begin(), found->end());
}

// Who runs, so that others on this machine can see whether it still does.
RecordJson this_process() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  std::array<char, 64> space{};  // of process numbers, like pid:[4026531836]
  if (::readlink("/proc/self/ns/pid", space.data(), space.size() - 1) < 0) space[0] = '\0';
  return {{"number", ::getpid()}, {"host", host.data()}, {"numbers", space.data()}};
}

// In UTC, as 2026-01-31T23:59:59Z.
std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc)};
}

struct StageCounters {
  double busy = 0;  // seconds, of worker stages those of all workers over their number
  double bytes = 0;
};

}  // namespace

struct RunRecord::Counters {
  uint64_t samples = 0;
  uint64_t bytes = 0;
  std::map<std::string, uint64_t> from;
  std::vector<std::pair<std::string, StageCounters>> stages;  // in the order of a sample's way
  std::map<uint64_t, std::array<double, 3>> sizes;            // samples, bytes, seconds
  struct Peer {
    double bytes = 0, same_host_bytes = 0, served_bytes = 0, wait_seconds = 0;
  };
  std::map<uint64_t, Peer> peers;

  // Those of an epoch under way, and what was `before` it. `counted`: its samples, where it does
  // not say so itself.
  static Counters of(const Counters& before, const RecordJson& epoch, uint64_t counted,
                     const RecordJson& stats);
  void read_run(const RecordJson& stats);
  StageCounters stage(const std::string& name) const {
    for (const auto& [known, counters] : stages)
      if (known == name) return counters;
    return {};
  }
  // {name: [share of the time that it was busy, bytes per second]} since `before`.
  RecordJson stages_since(const Counters& before, double seconds) const;
  RecordJson sizes_since(const Counters& before) const;
  RecordJson peers_since(const Counters& before) const;
};

RunRecord::Counters RunRecord::Counters::of(const Counters& before, const RecordJson& epoch,
                                            uint64_t counted, const RecordJson& stats) {
  Counters now;
  now.samples = before.samples + (epoch.contains("samples") ? count_of(epoch, "samples") : counted);
  now.bytes = before.bytes + count_of(epoch, "bytes");
  now.from = before.from;
  if (const auto from = epoch.find("from"); from != epoch.end() && from->is_object()) {
    for (const char* place : kPlaces) now.from[place] += count_of(*from, place);
  }
  now.read_run(stats);
  return now;
}

void RunRecord::Counters::read_run(const RecordJson& stats) {
  auto add = [this](std::string name, double busy, double passed) {
    if (std::ranges::any_of(stages, [&name](const auto& known) { return known.first == name; }))
      name += fmt::format(" {}", stages.size());
    stages.emplace_back(std::move(name), StageCounters{busy, passed});
  };
  auto came = [this](const char* place) {
    const auto found = from.find(place);
    return found == from.end() ? 0.0 : static_cast<double>(found->second);
  };
  double decoded_bytes = 0;
  for (const RecordJson& size : list_of(stats, "decode_by_size")) {
    decoded_bytes += number_of(size, "bytes");
    sizes[count_of(size, "from_bytes")] = {number_of(size, "samples"), number_of(size, "bytes"),
                                           number_of(size, "seconds")};
  }
  for (const RecordJson& stage : list_of(stats, "stages")) {
    const std::string name = stage.value("name", "");
    const double busy = number_of(stage, "busy_seconds");
    if (name == "source") {
      add(name, busy, number_of(stats, "source_bytes"));
    } else if (name == "hands") {
      const double threads =
          stage.contains("in_flight") ? number_of(stage["in_flight"], "limit") : 1;
      if (number_of(stats, "decoded_samples") > 0)
        add("decode", number_of(stats, "decode_seconds") / std::max(1.0, threads), decoded_bytes);
      else
        add("copies", busy, 0);
    } else {
      add(name, busy, came(name.c_str()));
    }
  }
  if (const auto asked = stats.find("peer_requests");
      asked != stats.end() && asked->is_object() && number_of(*asked, "busy_seconds") > 0)
    add("network", number_of(*asked, "busy_seconds"), came("peer"));
  if (stats.contains("transform_seconds"))
    add("transform",
        number_of(stats, "transform_seconds") / std::max(1.0, number_of(stats, "threads")), 0);
  for (const RecordJson& peer : list_of(stats, "peers"))
    peers[count_of(peer, "rank")] = {number_of(peer, "bytes"), number_of(peer, "same_host_bytes"),
                                     number_of(peer, "served_bytes"),
                                     number_of(peer, "wait_seconds")};
}

RecordJson RunRecord::Counters::stages_since(const Counters& before, double seconds) const {
  RecordJson json = RecordJson::object();
  if (seconds <= 0) return json;
  for (const auto& [name, counters] : stages) {
    const StageCounters then = before.stage(name);
    json[name] = {
        milli(std::clamp((counters.busy - then.busy) / seconds, 0.0, 1.0)),
        static_cast<uint64_t>(rounded(std::max(0.0, counters.bytes - then.bytes) / seconds))};
  }
  return json;
}

RecordJson RunRecord::Counters::sizes_since(const Counters& before) const {
  RecordJson json = RecordJson::array();
  for (const auto& [from_bytes, now] : sizes) {
    const auto found = before.sizes.find(from_bytes);
    const auto then = found == before.sizes.end() ? std::array<double, 3>{} : found->second;
    if (now[0] <= then[0]) continue;
    json.push_back({{"from_bytes", from_bytes},
                    {"samples", static_cast<uint64_t>(now[0] - then[0])},
                    {"bytes", static_cast<uint64_t>(now[1] - then[1])},
                    {"seconds", rounded(now[2] - then[2])}});
  }
  return json;
}

RecordJson RunRecord::Counters::peers_since(const Counters& before) const {
  std::vector<std::pair<uint64_t, Peer>> passed;
  for (const auto& [rank, now] : peers) {
    const auto found = before.peers.find(rank);
    const Peer then = found == before.peers.end() ? Peer{} : found->second;
    const Peer since{now.bytes - then.bytes, now.same_host_bytes - then.same_host_bytes,
                     now.served_bytes - then.served_bytes, now.wait_seconds - then.wait_seconds};
    if (since.bytes + since.same_host_bytes + since.served_bytes > 0)
      passed.emplace_back(rank, since);
  }
  std::ranges::stable_sort(passed, std::greater{}, [](const auto& peer) {
    return peer.second.bytes + peer.second.same_host_bytes + peer.second.served_bytes;
  });
  if (passed.size() > kPeersNamed) passed.resize(kPeersNamed);
  std::ranges::sort(passed, {}, [](const auto& peer) { return peer.first; });
  RecordJson json = RecordJson::array();
  for (const auto& [rank, since] : passed)
    json.push_back({{"rank", rank},
                    {"bytes", static_cast<uint64_t>(since.bytes)},
                    {"same_host_bytes", static_cast<uint64_t>(since.same_host_bytes)},
                    {"served_bytes", static_cast<uint64_t>(since.served_bytes)},
                    {"wait_seconds", rounded(since.wait_seconds)}});
  return json;
}

RunRecord::RunRecord() = default;
RunRecord::RunRecord(RunRecord&&) noexcept = default;
RunRecord& RunRecord::operator=(RunRecord&&) noexcept = default;
RunRecord::~RunRecord() = default;

Result<RunRecord> RunRecord::create(const std::filesystem::path& file, std::string_view header,
                                    Time now) {
  RunRecord record;
  RecordJson line{{"foreload_run", kRunFileVersion}};
  line.update(parse(header));
  line["foreload_run"] = kRunFileVersion;
  line["started"] = clock_time();
  line["process"] = this_process();
  record.header_ = line.dump(-1, ' ', false, RecordJson::error_handler_t::replace);
  if (!file.empty()) {
    FORELOAD_TRY(record.file_, RunFile::create(file, record.header_));
  }
  record.process_ = ::getpid();
  record.begin_ = record.last_line_ = record.last_point_ = record.epoch_begin_ = now;
  record.at_line_ = std::make_unique<Counters>();
  record.at_begin_ = std::make_unique<Counters>();
  return record;
}

double RunRecord::seconds(Time now) const {
  return std::chrono::duration<double>(now - begin_).count();
}

double RunRecord::interval(Time now) const {
  return std::clamp(seconds(now) / kMomentsOfARun, kLeastInterval, kMostInterval);
}

Result<void> RunRecord::write(std::string line, bool sync) {
  if (!file_) return {};
  auto written = file_->append(line, sync);
  if (!written) file_.reset();
  return written;
}

void RunRecord::begin_epoch(uint64_t epoch, uint64_t batches, std::string_view stats, Time now) {
  if (received_ > 0) {  // the epoch before was left in the middle: its last line knows most
    at_begin_->samples = at_line_->samples;
    at_begin_->bytes = at_line_->bytes;
    at_begin_->from = at_line_->from;
  }
  Counters begin;
  begin.samples = at_begin_->samples;
  begin.bytes = at_begin_->bytes;
  begin.from = at_begin_->from;
  begin.read_run(parse(stats));
  *at_begin_ = begin;
  *at_line_ = std::move(begin);
  epoch_ = epoch;
  batches_ = batches;
  received_ = 0;
  samples_ = 0;
  epoch_begin_ = last_line_ = last_point_ = now;
  waited_ = {};
  waits_.clear();
  curve_.clear();
}

RunRecord::Wants RunRecord::batch(std::chrono::nanoseconds waited, uint64_t samples, Time now) {
  ++received_;
  samples_ += samples;
  waited_ += waited;
  waits_.add(waited);
  using Seconds = std::chrono::duration<double>;
  const bool turn = received_ % (batches_ / kCurvePoints + 1) == 0;
  const bool soon = Seconds(now - last_point_).count() <
                    std::min(kMostInterval, seconds(now) / (10 * kMomentsOfARun));
  point_due_ = (turn && !soon) || received_ == batches_;
  if (Seconds(now - last_line_).count() >= interval(now)) return Wants::epoch_and_stats;
  return point_due_ ? Wants::epoch : Wants::nothing;
}

Result<void> RunRecord::tell(std::string_view epoch, std::string_view stats, Time now) {
  if (point_due_) {
    const RecordJson figures = parse(epoch);
    curve_ += fmt::format("{}[{:.3f},{},{}]", curve_.empty() ? "" : ",",
                          std::chrono::duration<double>(now - epoch_begin_).count(),
                          count_of(figures, "bytes"),
                          figures.contains("samples") ? count_of(figures, "samples") : samples_);
    last_point_ = now;
    point_due_ = false;
  }
  return stats.empty() ? Result<void>() : moment(epoch, stats, now);
}

Result<void> RunRecord::moment(std::string_view epoch, std::string_view stats, Time now) {
  const RecordJson figures = parse(epoch);
  const RecordJson of_run = parse(stats);
  Counters counters = Counters::of(*at_begin_, figures, samples_, of_run);
  const double since = std::chrono::duration<double>(now - last_line_).count();
  const double waited = std::chrono::duration<double>(waited_).count();
  RecordJson line{{"kind", "moment"},
                  {"at", milli(seconds(now))},
                  {"epoch", epoch_},
                  {"batches", received_},
                  {"of", batches_},
                  {"samples", counters.samples},
                  {"bytes", counters.bytes},
                  {"from", counters.from},
                  {"waited", milli(since > 0 ? std::min(1.0, waited / since) : 0)},
                  {"stages", counters.stages_since(*at_line_, since)},
                  {"ready", count_of(of_run, "ready_batches")}};
  if (const auto kept = of_run.find("kept_bytes"); kept != of_run.end()) line["kept_bytes"] = *kept;
  if (const auto verdict = figures.find("verdict");
      verdict != figures.end() && verdict->is_object()) {
    line["verdict"] = verdict->value("text", "");
    if (const auto losses = list_of(*verdict, "losses"); !losses.empty()) line["losses"] = losses;
  }
  *at_line_ = std::move(counters);
  last_line_ = now;
  waited_ = {};
  const std::string text = line.dump(-1, ' ', false, RecordJson::error_handler_t::replace);
  if (seen_moments_++ % keep_every_ == 0) moments_.push_back(text);
  if (moments_.size() > kMomentsKept) {  // every second one will do
    for (size_t i = 0; 2 * i < moments_.size(); ++i) moments_[i] = std::move(moments_[2 * i]);
    moments_.resize((moments_.size() + 1) / 2);
    keep_every_ *= 2;
  }
  return write(text, /*sync=*/false);
}

Result<void> RunRecord::end_epoch(std::string_view epoch, std::string_view stats, Time now) {
  RecordJson line{{"kind", "epoch"}, {"at", milli(seconds(now))}};
  const RecordJson figures = parse(epoch);
  line.update(figures);
  Counters counters = Counters::of(*at_begin_, figures, samples_, parse(stats));
  const double took = std::chrono::duration<double>(now - epoch_begin_).count();
  auto milliseconds = [](std::chrono::nanoseconds time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  // As the loop saw it, whoever made the batches.
  line["epoch"] = epoch_;
  if (!line.contains("seconds")) line["seconds"] = took;
  line["batches"] = received_;
  line["samples"] = counters.samples - at_begin_->samples;
  line["bytes"] = counters.bytes - at_begin_->bytes;
  if (!line.contains("wait_fraction"))
    line["wait_fraction"] =
        took > 0 ? std::min(1.0, std::chrono::duration<double>(waits_.sum()).count() / took) : 0;
  line["batch_wait_ms"] = {{"p50", milliseconds(waits_.quantile(0.5))},
                           {"p99", milliseconds(waits_.quantile(0.99))},
                           {"max", milliseconds(waits_.largest())}};
  line["wait_counts"] = waits_.doublings();
  line["stages"] = counters.stages_since(*at_begin_, took);
  line["decode_by_size"] = counters.sizes_since(*at_begin_);
  line["peers"] = counters.peers_since(*at_begin_);
  line["curve"] = parse(fmt::format("{{\"points\":[{}]}}", curve_))["points"];
  *at_begin_ = counters;
  *at_line_ = std::move(counters);
  received_ = 0;
  last_line_ = now;
  waited_ = {};
  std::string text = line.dump(-1, ' ', false, RecordJson::error_handler_t::replace);
  epochs_.push_back(text);
  if (epochs_.size() > kEpochsKept) epochs_.pop_front();
  return write(std::move(text), /*sync=*/true);
}

Result<void> RunRecord::close(Time now) {
  if (process_ != ::getpid()) return {};
  const RecordJson line{{"kind", "end"}, {"at", milli(seconds(now))}};
  const auto written = write(line.dump(), /*sync=*/true);
  file_.reset();
  return written;
}

std::string RunRecord::text() const {
  std::string text = header_ + '\n';
  for (const std::string& line : moments_) text += line + '\n';
  for (const std::string& line : epochs_) text += line + '\n';
  return text;
}

}  // namespace foreload
