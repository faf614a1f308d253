// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/limiter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

namespace foreload {
namespace {

constexpr std::array<unsigned, 16> kLadder{1,  2,  3,  4,  6,  8,   12,  16,
                                           24, 32, 48, 64, 96, 128, 192, 256};

// A higher level must be this much faster, a lower one may be this much slower.
constexpr double kWorthMore = 1.01;
constexpr double kWorthLess = 0.99;
// A difference that counts twice; one that ends a long window early; one that says that the path is
// not what it was.
constexpr double kObvious = 1.25;
constexpr double kGlaring = 1.5;
constexpr double kChanged = 1.15;

// What decides a probe. Going down takes more and is given up sooner: it gains no speed, and on
// most paths the windows it takes are slow ones.
struct Leads {
  int accept;
  int refuse;
};
constexpr Leads kUp{3, -3};
constexpr Leads kDown{4, -2};
constexpr int kMostCompared = 16;  // without such a lead the settled level stays
constexpr unsigned kMostCare = 4;
constexpr unsigned kFirstPause = 4;  // in windows
constexpr unsigned kLongestPause = 64;
// One of many ranks gets at least so many where nobody knows what is best: a parallel file system
// takes that from everybody, and with fewer a rank would wait for latency.
constexpr unsigned kFew = 4;

bool differ(double a, double b, double factor) {
  return a > b * factor || b > a * factor;
}

}  // namespace

Limiter::Limiter(Settings settings)
    : settings_(settings),
      limit_(std::clamp(settings.first, settings.least, settings.most)),
      settled_(limit_),
      next_pause_(kFirstPause) {
  discard_window();
}

void Limiter::start(RunTime now, bool waiting) {
  notice_idle_place(now);
  ++in_flight_;
  if (!waiting) discard_window();
}

void Limiter::finish(RunTime now, uint64_t bytes) {
  notice_idle_place(now);
  --in_flight_;
  if (echoes_ > 0) --echoes_;
  const auto size = static_cast<double>(bytes);
  if (bytes > 0) mean_bytes_ += mean_bytes_ == 0 ? size : (size - mean_bytes_) / 64;
  if (ignored_ > 0) {
    if (--ignored_ == 0) window_ = {.begin = now};
    return;
  }
  window_.bytes += bytes;
  // In the long run any such sum is proportional to the bytes. This one is the least noisy: where
  // latency rules, requests per second are steady, where bandwidth does, bytes are; and one huge
  // request must not decide a window.
  if (bytes > 0) window_.work += mean_bytes_ + std::min(size, 4 * mean_bytes_);
  if (++window_.finished < limit_) return;
  window_.finished = 0;
  ++window_.rounds;
  const RunTime time = now - window_.begin;
  if (window_.rounds < settings_.requests_per_place || time < settings_.shortest_window ||
      time <= RunTime(0)) {
    return;
  }
  const double seconds = std::chrono::duration<double>(time).count();
  const bool long_enough = window_.rounds >= care_ * settings_.requests_per_place &&
                           time >= care_ * settings_.shortest_window;
  if (long_enough || differ(window_.work / seconds, settled_rate_, kGlaring)) {
    end_window(now, seconds);
  }
}

void Limiter::throttled(RunTime) {
  if (echoes_ > 0) return;
  echoes_ = in_flight_;
  settled_ = std::max(settings_.least, limit_ / 2);
  look_again(1);
  leap_ = false;
  probing_ = false;
  warned_ = true;
  pause_ = kLongestPause;
  hold(settled_);
}

// Whoever leaves a place free while time passes has nothing to put there.
void Limiter::notice_idle_place(RunTime now) {
  if (has_room() && now - last_event_ > settings_.shortest_window / 10) discard_window();
  last_event_ = now;
}

// The next window begins when what is in flight now, or at the new level, has left.
void Limiter::discard_window() {
  ignored_ = std::max({1u, in_flight_, limit_});
}

void Limiter::hold(unsigned level) {
  limit_ = level;
  discard_window();
}

void Limiter::end_window(RunTime now, double seconds) {
  const double work_rate = window_.work / seconds;
  if (limit_ == settled_) {
    rate_ = static_cast<double>(window_.bytes) / seconds;
    judge_settled(work_rate);
  } else {
    judge_candidate(work_rate);
  }
  window_ = {.begin = now};
}

void Limiter::judge_settled(double work_rate) {
  settled_rate_ = work_rate;
  if (expected_rate_ == 0) expected_rate_ = recent_rate_ = work_rate;
  recent_rate_ += (work_rate - recent_rate_) / 4;
  expected_rate_ += (work_rate - expected_rate_) / 16;
  if (!warned_ && differ(recent_rate_, expected_rate_, kChanged)) {
    look_again(recent_rate_ > expected_rate_ ? 1 : -1);
    recent_rate_ = expected_rate_ = work_rate;
  }
  if (!probing_ && pause_ > 0) {
    --pause_;
    return;
  }
  probing_ = true;
  warned_ = false;
  probe_neighbour();
}

void Limiter::judge_candidate(double work_rate) {
  const bool won = work_rate > settled_rate_ * (direction_ > 0 ? kWorthMore : kWorthLess);
  const bool obvious = differ(work_rate, settled_rate_, kObvious);
  lead_ += (won ? 1 : -1) * (obvious ? 2 : 1);
  ++compared_;
  const Leads leads = direction_ > 0 ? kUp : kDown;
  const bool accepted = lead_ >= leads.accept;
  const bool refused = lead_ <= leads.refuse || compared_ == kMostCompared;
  if ((accepted || refused) && compared_ > std::abs(lead_)) care_ = std::min(2 * care_, kMostCare);
  if (!accepted) {
    if (refused) look_elsewhere();
    hold(settled_);
    return;
  }
  settled_ = limit_;
  settled_rate_ = recent_rate_ = expected_rate_ = work_rate;
  next_pause_ = kFirstPause;
  turned_ = false;
  lead_ = compared_ = 0;
  if (obvious) {
    leap_ = true;
    care_ = 1;
  }
  probe_neighbour();
}

void Limiter::look_again(int direction) {
  direction_ = direction;
  leap_ = true;
  turned_ = false;
  lead_ = compared_ = 0;
  care_ = 1;
  pause_ = 0;
  next_pause_ = kFirstPause;
  recent_rate_ = expected_rate_ = 0;
}

void Limiter::probe_neighbour() {
  while (probing_ && neighbour() == settled_) look_elsewhere();
  if (probing_) hold(neighbour());
}

// The candidate was refused, or there is none on this side.
void Limiter::look_elsewhere() {
  lead_ = compared_ = 0;
  if (leap_) {
    leap_ = false;
  } else if (!turned_) {
    turned_ = true;
    direction_ = -direction_;
  } else {
    turned_ = false;
    direction_ = 1;
    probing_ = false;
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, kLongestPause);
  }
}

unsigned Limiter::neighbour() const {
  unsigned level = settled_;
  for (int step = 0; step < (leap_ ? 2 : 1); ++step) {
    if (direction_ > 0) {
      const auto above = std::ranges::upper_bound(kLadder, level);
      level = above == kLadder.end() ? 2 * level : *above;
    } else if (settings_.tries_fewer) {
      const auto same = std::ranges::lower_bound(kLadder, level);
      if (same != kLadder.begin()) level = *(same - 1);
    }
  }
  return std::clamp(level, settings_.least, settings_.most);
}

unsigned part_of(double best, uint32_t ranks, const Limiter::Settings& limiter) {
  return static_cast<unsigned>(std::clamp(std::ceil(best / ranks),
                                          static_cast<double>(limiter.least),
                                          static_cast<double>(limiter.most)));
}

Limiter::Settings shared_among(uint32_t ranks, std::optional<double> best, BestOf whose,
                               Limiter::Settings alone) {
  Limiter::Settings part = alone;
  if (best) part.first = part_of(*best, ranks, alone);
  if (ranks == 1) return part;
  if (best && whose == BestOf::path) {
    part.most = part.first;
    part.tries_fewer = false;
  } else {
    part.most = std::max({kFew, (alone.most + ranks - 1) / ranks, best ? part.first : 0});
    part.first = std::min(part.first, part.most);
  }
  return part;
}

}  // namespace foreload
