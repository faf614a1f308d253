// SPDX-License-Identifier: Apache-2.0
#include "foreload/metrics/trace.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/files.h"
#include "foreload/base/new_file.h"

namespace foreload {
namespace {

// Lanes of one track: each span gets the lowest lane that is free when it begins.
class Lanes {
 public:
  // REQUIRES: calls come in the order of `begin`.
  size_t place(Trace::Time begin, Trace::Time end) {
    while (!busy_.empty() && busy_.top().first <= begin) {
      free_.push(busy_.top().second);
      busy_.pop();
    }
    if (free_.empty()) free_.push(count_++);
    const size_t lane = free_.top();
    free_.pop();
    busy_.emplace(end, lane);
    return lane;
  }
  size_t count() const { return count_; }

 private:
  using Busy = std::pair<Trace::Time, size_t>;
  std::priority_queue<Busy, std::vector<Busy>, std::greater<>> busy_;  // by their end
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> free_;
  size_t count_ = 0;
};

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

double microseconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::micro>(time).count();
}

// Writes one event per line; remembers a failure until close().
class EventWriter {
 public:
  explicit EventWriter(const std::filesystem::path& file) : file_(file), error_(file_.create()) {}

  void event(std::string_view object) {
    constexpr size_t kWrittenAtOnce = 64 << 10;
    text_ += first_ ? "\n" : ",\n";
    text_ += object;
    first_ = false;
    if (text_.size() >= kWrittenAtOnce) write();
  }
  // An errno value, 0 if all was written and the file is in its place.
  int close() {
    text_ += "\n]}\n";
    write();
    return error_ != 0 ? error_ : file_.commit();
  }

 private:
  void write() {
    if (error_ == 0) error_ = file_.write(std::as_bytes(std::span(text_)));
    text_.clear();
  }

  NewFile file_;
  int error_;
  bool first_ = true;
  std::string text_ = R"({"displayTimeUnit":"ms","traceEvents":[)";
};

}  // namespace

void Trace::span(const char* track, const char* name, Time begin, Time end, uint64_t detail) {
  add({track, name, begin, std::max(begin, end), detail, 0});
}

void Trace::value(const char* name, Time when, double value) {
  // JSON has no way to write the others.
  if (std::isfinite(value)) add({nullptr, name, when, when, 0, value});
}

void Trace::add(Event event) {
  const std::lock_guard lock(mutex_);
  if (events_.size() == most_events_) events_.pop_front();
  events_.push_back(event);
}

Result<void> Trace::save(const std::filesystem::path& file) const {
  std::vector<Event> events;
  {
    const std::lock_guard lock(mutex_);
    events.assign(events_.begin(), events_.end());
  }
  std::ranges::stable_sort(events, {}, &Event::begin);
  const Time start = events.empty() ? Time() : events.front().begin;

  // Tracks are told apart by their text: one name may be several literals.
  std::map<std::string_view, Lanes> tracks;
  std::vector<size_t> lanes;  // by event; 0 for values
  lanes.reserve(events.size());
  for (const Event& event : events) {
    lanes.push_back(event.track == nullptr ? 0 : tracks[event.track].place(event.begin, event.end));
  }

  EventWriter out(file);
  std::map<std::string_view, size_t> first_threads;
  size_t threads = 1;
  for (const auto& [track, placed] : tracks) {
    first_threads[track] = threads;
    for (size_t lane = 0; lane < placed.count(); ++lane, ++threads) {
      const std::string name =
          lane == 0 ? std::string(track) : fmt::format("{} {}", track, lane + 1);
      out.event(
          fmt::format(R"({{"ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":{}}}}})",
                      threads, json_text(name)));
      out.event(fmt::format(
          R"({{"ph":"M","pid":1,"tid":{0},"name":"thread_sort_index","args":{{"sort_index":{0}}}}})",
          threads));
    }
  }
  for (size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (event.track == nullptr) {
      out.event(fmt::format(R"({{"ph":"C","pid":1,"name":{},"ts":{:.3f},"args":{{"value":{}}}}})",
                            json_text(event.name), microseconds(event.begin - start), event.value));
    } else {
      out.event(fmt::format(
          R"({{"ph":"X","pid":1,"tid":{},"name":{},"ts":{:.3f},"dur":{:.3f},"args":{{"detail":{}}}}})",
          first_threads[event.track] + lanes[i], json_text(event.name),
          microseconds(event.begin - start), microseconds(event.end - event.begin), event.detail));
    }
  }
  const int error = out.close();
  if (error == 0) return {};
  return fail(
      ErrorKind::unreadable,
      fmt::format("cannot write trace {}: {}. Check that its folder exists, is writable and "
                  "has space left.",
                  file.native(), system_message(error)));
}

}  // namespace foreload
