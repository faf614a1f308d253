// SPDX-License-Identifier: Apache-2.0
#include "foreload/verdict/verdict.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "foreload/verdict/model.h"

namespace foreload {
namespace {

// Stages that are this near to the busiest one count as busy as it is.
constexpr double kAsBusy = 0.95;

// From the loop back to the source: a stage that is as busy as one before it is what limits,
// because earlier ones may work ahead. Other ranks come last: who asks them often waits for what
// they themselves read from the source.
constexpr std::array kFromTheLoop{Limit::transform, Limit::decode, Limit::disk, Limit::source,
                                  Limit::network};

double share(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

double waited_after_start(const EpochFigures& figures) {
  return std::max(0.0, figures.waited - figures.first_wait);
}

Limit limit_of(const EpochFigures& figures) {
  const double waited = waited_after_start(figures);
  if (share(waited, figures.seconds) < kLeastWaiting) return Limit::loop;
  if (figures.own_seconds >= waited / 2) return Limit::transform;
  double most = 0;
  for (const Limit limit : kFromTheLoop)
    most = std::max(most, figures.stages[static_cast<size_t>(limit)].busy_seconds);
  if (most <= 0) return Limit::loop;
  for (const Limit limit : kFromTheLoop)
    if (figures.stages[static_cast<size_t>(limit)].busy_seconds >= kAsBusy * most) return limit;
  return Limit::loop;
}

std::string percent(double part, double whole) {
  return fmt::format("{:.0f} %", 100 * share(part, whole));
}

std::string two_digits(double value) {
  return fmt::format("{:.{}f}", value, value < 10 ? 1 : 0);
}

std::string at_rate(const StageFigures& stage) {
  if (stage.busy_seconds <= 0 || stage.bytes == 0) return "";
  const double megabytes = static_cast<double>(stage.bytes) / stage.busy_seconds / 1e6;
  if (megabytes < 1) return fmt::format(" ({} kB/s)", two_digits(1e3 * megabytes));
  return fmt::format(" ({} MB/s)", two_digits(megabytes));
}

// What the loop waited for.
std::string name_in_text(const EpochFigures& figures, Limit limit) {
  const StageFigures& stage = figures.stages[static_cast<size_t>(limit)];
  auto busy = [&](unsigned workers, const char* what) {
    return fmt::format(" ({} {} busy {})", workers, what,
                       percent(stage.busy_seconds, figures.seconds));
  };
  switch (limit) {
    case Limit::loop:
      break;
    case Limit::source:
      return "the source" + at_rate(stage);
    case Limit::network:
      return "other ranks" + at_rate(stage);
    case Limit::disk:
      return "the disk cache" + at_rate(stage);
    case Limit::decode:
      if (figures.decode_threads == 0) return "copies from memory";
      return "decoding" + busy(figures.decode_threads, "threads");
    case Limit::transform:
      if (figures.own_seconds >= waited_after_start(figures) / 2)
        return "Python functions in the loop's own thread (collate_fn, batch_transform)";
      return "the Python transform" + busy(figures.transform_workers,
                                           figures.transform_in_threads ? "threads" : "processes");
  }
  return "nothing";
}

std::string waiting_text(const EpochFigures& figures, Limit limit) {
  const std::string waited = percent(figures.waited, figures.seconds);
  const bool slow_start = figures.first_wait > figures.waited / 2 &&
                          share(figures.first_wait, figures.seconds) >= kLeastWaiting;
  const std::string start = fmt::format("{:.1f} s", figures.first_wait);
  if (limit == Limit::loop) {
    if (slow_start)
      return fmt::format(
          "waited {} for the first batch ({}), not after it: the loop itself is the "
          "limit",
          waited, start);
    if (share(figures.waited, figures.seconds) < 0.005)
      return "did not wait: the loop itself is the limit";
    return fmt::format("waited {}: the loop itself is the limit", waited);
  }
  const std::string name = name_in_text(figures, limit);
  if (slow_start)
    return fmt::format("waited {}, most of it for the first batch ({}), then for {}", waited, start,
                       name);
  return fmt::format("waited {} for {}", waited, name);
}

std::string times_text(double times) {
  return two_digits(times) + " times as fast";
}

std::string seconds_text(double seconds) {
  return fmt::format("{:.{}f} s", seconds, seconds < 1 ? 2 : seconds < 10 ? 1 : 0);
}

// Fills the helps of a verdict, and returns what its text says about them.
std::string add_helps(const EpochFigures& figures, Verdict& verdict) {
  const bool scaled = figures.epoch_samples > 0 && figures.samples > 0;
  const double scale =
      scaled ? static_cast<double>(figures.epoch_samples) / static_cast<double>(figures.samples)
             : 1;
  double later = figures.seconds;  // an epoch of this run from now on
  std::string text;
  const std::vector<Change> changes = changes_of(figures, verdict.limit);
  auto gains = [](const Change& change, double now) {
    return change.then.seconds() <= (1 - kLeastGain) * now;
  };
  auto add = [&](const Change& change, const std::string& what) {
    const double seconds = change.then.seconds();
    verdict.helps.push_back({what, seconds * scale, figures.seconds / std::max(seconds, 1e-9)});
  };
  for (const Change& change : changes) {
    if (change.kind != Change::Kind::caches_are_full || !gains(change, later)) continue;
    later = change.then.seconds();
    text = fmt::format("; later epochs will take about {}", seconds_text(later * scale));
    add(change, change.what);
  }
  const Change* best = nullptr;
  for (const Change& change : changes) {
    if (change.kind != Change::Kind::settings || !gains(change, later)) continue;
    add(change, change.what);
    if (best == nullptr || change.then.seconds() < best->then.seconds()) best = &change;
  }
  if (best != nullptr && text.empty())
    text = fmt::format("; {} would make {} {}", best->what,
                       verdict.limit == Limit::source ? "later epochs" : "an epoch",
                       times_text(figures.seconds / std::max(best->then.seconds(), 1e-9)));
  else if (best != nullptr)
    text += fmt::format(", {} with {}", seconds_text(best->then.seconds() * scale), best->what);
  for (const Change& change : changes) {
    if (change.kind != Change::Kind::next_run || !gains(change, figures.seconds)) continue;
    add(change, change.what + ", in the first epoch of the next run");
  }
  std::stable_sort(verdict.helps.begin(), verdict.helps.end(),
                   [](const Help& a, const Help& b) { return a.seconds < b.seconds; });
  return text;
}

}  // namespace

std::string_view name_of(Limit limit) {
  static constexpr std::array<std::string_view, kLimits> kNames{"loop", "source", "network",
                                                                "disk", "decode", "transform"};
  return kNames[static_cast<size_t>(limit)];
}

Verdict judge(const EpochFigures& figures) {
  Verdict verdict;
  verdict.limit = limit_of(figures);
  verdict.waited = share(figures.waited, figures.seconds);
  verdict.seconds = figures.seconds;
  verdict.losses = losses_of(figures);
  if (figures.seconds < kLeastSeconds) {
    verdict.text = fmt::format("waited {} of {:.2f} s, too short to judge",
                               percent(figures.waited, figures.seconds), figures.seconds);
    return verdict;
  }
  verdict.text = waiting_text(figures, verdict.limit);
  if (verdict.limit != Limit::loop) verdict.text += add_helps(figures, verdict);
  return verdict;
}

}  // namespace foreload
