// SPDX-License-Identifier: Apache-2.0
#include "foreload/policy/limiter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <ostream>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "foreload/base/random.h"

namespace foreload {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

RunTime from_seconds(double time) {
  return RunTime(static_cast<int64_t>(time * 1e9));
}

constexpr double kMB = 1e6;

// A device from some time on. A request waits for its latency, then all that have done so share the
// rate, which depends on how many are in flight.
struct Device {
  double from = 0;                     // seconds
  std::function<double(double)> rate;  // bytes per second by requests in flight
  double latency = 0;                  // seconds per request
  double jitter = 0.1;                 // sigma of the logarithm of the latency
  double stalled_share = 0;            // of requests, that take 0.1 to 2 s longer
  double between_stalls = 0;           // mean seconds; 0: the device never stands still
};

// Lognormal with mean 115 KiB, cut to the range of the files of ImageNet; or all of one size.
struct RequestSizes {
  double fixed = 100 * 1024;
  double sigma = 0;

  uint64_t size(uint64_t seed, uint64_t request) const {
    if (sigma == 0) return static_cast<uint64_t>(fixed);
    const double normal = philox_normal(seed, request, 1)[0];
    const double size = 115 * 1024 * std::exp(sigma * normal - sigma * sigma / 2);
    return static_cast<uint64_t>(std::clamp(size, 508.0, 15.0 * 1024 * 1024));
  }
};

struct Scenario {
  std::vector<Device> devices;
  RequestSizes sizes;
  uint64_t seed = 1;
};

double uniform(uint32_t word) {
  return (word + 0.5) / 4294967296.0;
}

// What a limiter did to a device that always has requests waiting, in steps of 0.1 s.
struct History {
  static constexpr double kStep = 0.1;
  std::vector<double> bytes;
  std::vector<unsigned> levels;  // settled or probed, at the end of each step

  double rate(double from, double to) const {
    double sum = 0;
    const auto first = static_cast<size_t>(std::lround(from / kStep));
    const auto last = static_cast<size_t>(std::lround(to / kStep));
    for (size_t i = first; i < last; ++i) sum += bytes.at(i);
    return sum / (to - from);
  }
  unsigned median_level(double from, double to) const {
    std::vector<unsigned> part(levels.begin() + std::lround(from / kStep),
                               levels.begin() + std::lround(to / kStep));
    std::ranges::nth_element(part, part.begin() + static_cast<ptrdiff_t>(part.size() / 2));
    return part[part.size() / 2];
  }
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, Limiter::Settings settings)
      : scenario_(scenario), limiter_(settings) {}

  History run(double until) {
    history_.bytes.assign(static_cast<size_t>(std::lround(until / History::kStep)) + 1, 0);
    history_.levels = std::vector<unsigned>(history_.bytes.size(), limiter_.limit());
    fill();
    while (now_ < until) step();
    return history_;
  }

 private:
  struct Waiting {
    double ready;
    uint64_t bytes;
    bool operator>(const Waiting& other) const { return ready > other.ready; }
  };
  struct Moving {
    double ends;  // at this amount of bytes per request
    uint64_t bytes;
    bool operator>(const Moving& other) const { return ends > other.ends; }
  };
  template <class T>
  using Earliest = std::priority_queue<T, std::vector<T>, std::greater<>>;

  const Device& device() const { return scenario_.devices[device_]; }

  void fill() {
    while (limiter_.has_room()) {
      limiter_.start(from_seconds(now_), true);
      const uint64_t request = requests_++;
      const auto random = philox(scenario_.seed, request, 2);
      const double normal = philox_normal(scenario_.seed, request, 3)[0];
      double latency = device().latency * std::exp(device().jitter * normal);
      if (uniform(random[0]) < device().stalled_share) latency += 0.1 + 1.9 * uniform(random[1]);
      waiting_.push({now_ + latency, scenario_.sizes.size(scenario_.seed, request)});
    }
  }

  void step() {
    const double total = stalled_ ? 0 : device().rate(limiter_.in_flight());
    const double each = moving_.empty() ? 0 : total / static_cast<double>(moving_.size());
    double next = waiting_.empty() ? HUGE_VAL : waiting_.top().ready;
    const double end = each > 0 ? now_ + (moving_.top().ends - moved_) / each : HUGE_VAL;
    next = std::min({next, end, next_stall()});
    const bool changes =
        device_ + 1 < scenario_.devices.size() && scenario_.devices[device_ + 1].from <= next;
    if (changes) next = scenario_.devices[device_ + 1].from;
    next = std::max(next, now_);
    moved_ += each * (next - now_);
    now_ = next;
    if (changes) {
      ++device_;
    } else if (next == next_stall()) {
      toggle_stall();
    } else if (next == end) {
      finish(moving_.top().bytes);
    } else {
      moving_.push({moved_ + static_cast<double>(waiting_.top().bytes), waiting_.top().bytes});
      waiting_.pop();
    }
  }

  void finish(uint64_t bytes) {
    moved_ = moving_.top().ends;
    moving_.pop();
    limiter_.finish(from_seconds(now_), bytes);
    const auto step = static_cast<size_t>(now_ / History::kStep);
    if (step < history_.bytes.size()) {
      history_.bytes[step] += static_cast<double>(bytes);
      history_.levels[step] = limiter_.limit();
    }
    fill();
  }

  double next_stall() const {
    if (device().between_stalls == 0) return HUGE_VAL;
    return stalled_ ? stall_ends_ : stall_begins_ < 0 ? device().between_stalls : stall_begins_;
  }
  void toggle_stall() {
    const auto random = philox(scenario_.seed, stalls_++, 4);
    stalled_ = !stalled_;
    if (stalled_) {
      stall_ends_ = now_ + 0.1 + 1.9 * uniform(random[0]);
    } else {
      stall_begins_ = now_ - device().between_stalls * std::log(uniform(random[1]));
    }
  }

  const Scenario& scenario_;
  Limiter limiter_;
  History history_;
  size_t device_ = 0;
  double now_ = 0;
  double moved_ = 0;  // bytes that each request in transfer since the beginning would have got
  uint64_t requests_ = 0;
  uint64_t stalls_ = 0;
  bool stalled_ = false;
  double stall_begins_ = -1;
  double stall_ends_ = 0;
  Earliest<Waiting> waiting_;
  Earliest<Moving> moving_;
};

// Straight lines between (level, MB/s) points, flat beyond the last.
std::function<double(double)> curve(std::vector<std::pair<double, double>> points) {
  return [points = std::move(points)](double level) {
    for (size_t i = 1; i < points.size(); ++i) {
      if (level > points[i].first) continue;
      const auto [x0, y0] = points[i - 1];
      const auto [x1, y1] = points[i];
      return kMB * (y0 + (y1 - y0) * std::max(0.0, level - x0) / (x1 - x0));
    }
    return kMB * points.back().second;
  };
}
std::function<double(double)> flat(double mb_per_second) {
  return curve({{1, mb_per_second}});
}

const auto kDisk = curve({{1, 100}, {2, 130}, {4, 150}, {8, 120}, {16, 90}, {32, 70}});
const auto kScalesTo8 = curve({{1, 52}, {2, 103}, {4, 204}, {8, 400}});
const auto kScalesTo32 = curve({{1, 20}, {32, 600}});
const auto kBestAt2 = curve({{1, 90}, {2, 110}, {4, 80}, {8, 60}, {16, 45}, {32, 30}});

struct Figures {
  unsigned level = 0;       // most of the time
  unsigned best_level = 0;  // of the fixed ones
  double share = 0;         // of the best fixed level's throughput
};

Figures against_fixed(const Scenario& scenario, double from, double to) {
  Figures figures;
  double best = 0;
  for (const unsigned level : {1u, 2u, 4u, 8u, 16u, 32u}) {
    Limiter::Settings fixed{.least = level, .most = level, .first = level};
    const double rate = Simulation(scenario, fixed).run(to).rate(from, to);
    if (rate > best) {
      best = rate;
      figures.best_level = level;
    }
  }
  const History history = Simulation(scenario, {}).run(to);
  figures.level = history.median_level(from, to);
  figures.share = history.rate(from, to) / best;
  return figures;
}

struct Case {
  const char* name;
  std::vector<Device> devices;
  double settled = 2;  // seconds, after which it is measured
};

// Each fails for its own kind of device.
std::vector<Case> cases() {
  return {
      {"HighLatencyHighBandwidth", {{.rate = flat(1000), .latency = 0.02}}},
      {"SlowerWithManyStreams", {{.rate = kDisk}}},
      {"SlowerWithManyStreamsAndLatency", {{.rate = kDisk, .latency = 0.001}}},
      {"ScalesTo8", {{.rate = kScalesTo8}}},
      {"ScalesTo8WithLatency", {{.rate = kScalesTo8, .latency = 0.002}}},
      {"Narrow", {{.rate = flat(60), .latency = 0.0055}}, 1},
      {"DiskBecomesParallel", {{.rate = kDisk}, {.from = 20, .rate = kScalesTo8}}, 24},
      {"ParallelBecomesDisk", {{.rate = kScalesTo8}, {.from = 20, .rate = kDisk}}, 24},
      {"TenTimesTheBandwidth",
       {{.rate = flat(60), .latency = 0.005}, {.from = 20, .rate = flat(600), .latency = 0.005}},
       24},
      {"TenthOfTheBandwidth",
       {{.rate = flat(600), .latency = 0.005}, {.from = 20, .rate = flat(60), .latency = 0.005}},
       24},
      {"ScalingTo32BecomesBestAt2",
       {{.rate = kScalesTo32, .latency = 0.001}, {.from = 20, .rate = kBestAt2, .latency = 0.001}},
       24},
      {"BestAt2BecomesScalingTo32",
       {{.rate = kBestAt2, .latency = 0.001}, {.from = 20, .rate = kScalesTo32, .latency = 0.001}},
       24},
  };
}

enum class Noise { none, sizes_and_latency, slow_requests, standstills };

Scenario make_scenario(const Case& the_case, Noise noise, uint64_t seed) {
  Scenario scenario{.devices = the_case.devices, .seed = seed};
  if (noise == Noise::none) return scenario;
  scenario.sizes.sigma = 0.9;
  for (Device& device : scenario.devices) {
    device.jitter = 0.5;
    if (noise == Noise::slow_requests) device.stalled_share = 0.0002;
    if (noise == Noise::standstills) device.between_stalls = 15;
  }
  return scenario;
}

using CaseAndNoise = std::tuple<Case, Noise>;

// gtest prints parameters; the name says enough.
void PrintTo(const CaseAndNoise& parameter, std::ostream* out) {
  *out << std::get<0>(parameter).name;
}

// Left out under the sanitizers: long loops over plain arithmetic.
class LimiterStatistics : public ::testing::TestWithParam<CaseAndNoise> {};

TEST_P(LimiterStatistics, ReachesTheBestFixedLevel) {
  const auto& [the_case, noise] = GetParam();
  for (const uint64_t seed : {1, 2}) {
    const Figures figures =
        against_fixed(make_scenario(the_case, noise, seed), the_case.settled, 60);
    RecordProperty("level", static_cast<int>(figures.level));
    RecordProperty("permille", static_cast<int>(1000 * figures.share));
    EXPECT_GE(figures.share, 0.95) << "seed " << seed << ": mostly at level " << figures.level
                                   << ", best fixed level " << figures.best_level;
  }
}

std::string name_of_case(const ::testing::TestParamInfo<CaseAndNoise>& parameter) {
  const auto& [the_case, noise] = parameter.param;
  constexpr std::array<const char*, 4> kNoises{"", "Noisy", "SlowRequests", "Standstills"};
  return std::string(the_case.name) + kNoises[static_cast<size_t>(noise)];
}

INSTANTIATE_TEST_SUITE_P(Devices, LimiterStatistics,
                         ::testing::Combine(::testing::ValuesIn(cases()),
                                            ::testing::Values(Noise::none, Noise::sizes_and_latency,
                                                              Noise::slow_requests,
                                                              Noise::standstills)),
                         name_of_case);

// The first epoch counts too, from its first request on.
TEST(LimiterStartStatistics, ReachesTheBandwidthQuickly) {
  const Case narrow{"", {{.rate = flat(60), .latency = 0.0055}}};
  for (const uint64_t seed : {1, 2, 3}) {
    const Scenario scenario = make_scenario(narrow, Noise::none, seed);
    const History history = Simulation(scenario, {}).run(60);
    EXPECT_GE(history.rate(0, 1), 0.85 * 60 * kMB) << seed;
    EXPECT_GE(history.rate(1, 5), 0.98 * 60 * kMB) << seed;
    EXPECT_GE(history.rate(0, 60), 0.99 * 60 * kMB) << seed;
  }
}

TEST(Limiter, IsDeterministic) {
  const Scenario scenario = make_scenario(cases()[1], Noise::standstills, 5);
  const History first = Simulation(scenario, {}).run(10);
  const History second = Simulation(scenario, {}).run(10);
  EXPECT_EQ(first.bytes, second.bytes);
  EXPECT_EQ(first.levels, second.levels);
}

TEST(Limiter, StaysWithinItsBounds) {
  // Wants 256, gets 10; wants 4, gets 5.
  const Scenario wide{{{.rate = flat(1000), .latency = 0.02}}};
  const Scenario disk{{{.rate = kDisk}}};
  const History capped = Simulation(wide, {.least = 2, .most = 10, .first = 100}).run(5);
  EXPECT_EQ(std::ranges::max(capped.levels), 10);
  EXPECT_GE(std::ranges::min(capped.levels), 2);
  EXPECT_EQ(capped.median_level(2, 5), 10);
  const History raised = Simulation(disk, {.least = 5, .most = 200, .first = 1}).run(5);
  EXPECT_EQ(std::ranges::min(raised.levels), 5);
  EXPECT_EQ(raised.median_level(2, 5), 5);
  const History fixed = Simulation(disk, {.least = 7, .most = 7}).run(2);
  EXPECT_EQ(std::ranges::min(fixed.levels), 7);
  EXPECT_EQ(std::ranges::max(fixed.levels), 7);
}

TEST(Limiter, GoesBeyondItsLadderWhereAllowed) {
  const Scenario endless{{{.rate = flat(1e5), .latency = 0.1}}};
  EXPECT_GT(Simulation(endless, {.most = 2'000}).run(60).median_level(50, 60), 900);
}

TEST(Limiter, CountsWhatIsInFlight) {
  Limiter limiter({.first = 2});
  EXPECT_EQ(limiter.limit(), 2);
  EXPECT_TRUE(limiter.has_room());
  limiter.start(milliseconds(0), true);
  limiter.start(milliseconds(0), true);
  EXPECT_EQ(limiter.in_flight(), 2);
  EXPECT_FALSE(limiter.has_room());
  limiter.finish(milliseconds(5), 100);
  EXPECT_EQ(limiter.in_flight(), 1);
  EXPECT_TRUE(limiter.has_room());
}

TEST(Limiter, RateIsThatOfThePath) {
  Limiter limiter({.least = 4, .most = 4});
  EXPECT_EQ(limiter.rate(), 0);
  for (int64_t ms = 0; ms < 1'000; ++ms) {
    while (limiter.has_room()) limiter.start(milliseconds(ms), true);
    limiter.finish(milliseconds(ms + 1), 50'000);
  }
  EXPECT_NEAR(limiter.rate(), 50 * kMB, 0.1 * kMB);
}

// 4 places that `demand` requests use; each lasts 10 ms. Returns the levels that were seen.
std::vector<unsigned> levels_with_demand(unsigned demand, bool waiting, RunTime idle) {
  Limiter limiter({});
  std::vector<unsigned> levels;
  RunTime now{0};
  for (int i = 0; i < 2'000; ++i) {
    while (limiter.has_room() && limiter.in_flight() < demand) limiter.start(now, waiting);
    now += milliseconds(10);
    while (limiter.in_flight() > 0) limiter.finish(now, 100'000);
    now += idle;
    levels.push_back(limiter.limit());
  }
  return levels;
}

TEST(Limiter, WithoutDemandTheLevelStays) {
  for (const unsigned demand : {1u, 3u, 4u, 9u}) {
    const auto levels = levels_with_demand(demand, /*waiting=*/false, RunTime(0));
    EXPECT_EQ(std::ranges::max(levels), 4) << demand;
    EXPECT_EQ(std::ranges::min(levels), 4) << demand;
  }
}

TEST(Limiter, PlacesLeftFreeSayThatThereIsNoDemand) {
  const auto levels = levels_with_demand(4, /*waiting=*/true, milliseconds(30));
  EXPECT_EQ(std::ranges::max(levels), 4);
  EXPECT_EQ(std::ranges::min(levels), 4);
}

TEST(Limiter, WithDemandTheSamePathMovesIt) {
  EXPECT_GT(std::ranges::max(levels_with_demand(1'000, /*waiting=*/true, RunTime(0))), 64);
}

TEST(Limiter, FailedRequestsAreNoThroughput) {
  // Above 4 places everything fails at once, which is fast.
  Limiter limiter({});
  RunTime now{0};
  uint64_t settled = 0;
  for (int i = 0; i < 20'000; ++i) {
    while (limiter.has_room()) limiter.start(now, true);
    now += milliseconds(limiter.limit() > 4 ? 1 : 10);
    const uint64_t bytes = limiter.limit() > 4 ? 0 : 100'000;
    while (limiter.in_flight() > 0) limiter.finish(now, bytes);
    settled += limiter.limit() == 4;
  }
  EXPECT_GT(settled, 10'000);
}

TEST(Limiter, ThrottledHalves) {
  Limiter limiter({.least = 3, .first = 16});
  limiter.throttled(seconds(1));
  EXPECT_EQ(limiter.limit(), 8);
  limiter.throttled(seconds(2));
  EXPECT_EQ(limiter.limit(), 4);
  limiter.throttled(seconds(3));
  EXPECT_EQ(limiter.limit(), 3);
}

TEST(Limiter, RequestsOfOneFlightAreThrottledOnce) {
  Limiter limiter({.first = 16});
  while (limiter.has_room()) limiter.start(seconds(1), true);
  for (int i = 0; i < 16; ++i) {
    limiter.throttled(seconds(2));
    limiter.finish(seconds(2), 0);
  }
  EXPECT_EQ(limiter.limit(), 8);
  limiter.start(seconds(3), true);
  limiter.throttled(seconds(3));
  EXPECT_EQ(limiter.limit(), 4);
}

TEST(Limiter, WaitsAfterItWasThrottledThenProbesAgain) {
  Limiter limiter({.first = 16});
  limiter.throttled(RunTime(0));
  RunTime now{0};
  RunTime left{0};
  while (left == RunTime(0) && now < seconds(60)) {
    while (limiter.has_room()) limiter.start(now, true);
    now += milliseconds(10);
    // The path gets better by itself meanwhile, which is no reason to be bold.
    const uint64_t bytes = now < seconds(1) ? 1'000 : 100'000;
    while (limiter.in_flight() > 0) limiter.finish(now, bytes);
    if (limiter.limit() != 8) left = now;
  }
  EXPECT_GT(left, seconds(3));
  EXPECT_LT(left, seconds(10));
  EXPECT_EQ(limiter.limit(), 12);
}

TEST(SharedLimiter, OneRankBeginsWithTheBestAndMayGoOn) {
  const Limiter::Settings alone{1, 64, 16};
  EXPECT_EQ(shared_among(1, 5, BestOf::path, alone).first, 5u);
  EXPECT_EQ(shared_among(1, 500, BestOf::path, alone).first, 64u);
  EXPECT_EQ(shared_among(1, std::nullopt, BestOf::path, alone).first, 16u);
  for (const std::optional<double> best : {std::optional(5.0), std::optional<double>()})
    EXPECT_EQ(shared_among(1, best, BestOf::node, alone).most, 64u);
}

TEST(SharedLimiter, SeveralAreHeldToTheirPartOfTheBest) {
  const Limiter::Settings alone{1, 256, 8};
  for (const auto& [ranks, part] : {std::pair(4u, 8u), {5u, 7u}, {32u, 1u}, {1000u, 1u}}) {
    const Limiter::Settings shared = shared_among(ranks, 32, BestOf::path, alone);
    EXPECT_EQ(shared.first, part);
    EXPECT_EQ(shared.most, part);
  }
}

TEST(SharedLimiter, WhoIsHeldToAPartTriesNoFewerUnlessTold) {
  Limiter limiter(shared_among(4, 32, BestOf::path, {1, 256, 8}));
  RunTime now{0};
  // Bandwidth is used up: the fewer a rank has, the less of it.
  const auto pass = [&](RunTime until, unsigned& least) {
    while (now < until) {
      while (limiter.has_room()) limiter.start(now, true);
      now += milliseconds(10);
      while (limiter.in_flight() > 0) limiter.finish(now, 100'000);
      least = std::min(least, limiter.limit());
    }
  };
  unsigned least = 8;
  pass(seconds(60), least);
  EXPECT_EQ(least, 8u);
  for (int i = 0; i < 8; ++i) limiter.start(now, true);
  limiter.throttled(now);
  EXPECT_EQ(limiter.limit(), 4u);
  while (limiter.in_flight() > 0) limiter.finish(now, 100'000);
  pass(seconds(120), least);
  EXPECT_EQ(limiter.limit(), 8u) << "does not come back";
}

TEST(SharedLimiter, WhatOneNodeFoundBestIsOnlyABeginning) {
  const Limiter::Settings alone{1, 256, 8};
  for (const auto& [ranks, best, first, most] :
       {std::tuple(4u, 32, 8u, 64u), {64u, 32, 1u, 4u}, {2u, 400, 200u, 200u}}) {
    const Limiter::Settings shared = shared_among(ranks, best, BestOf::node, alone);
    EXPECT_EQ(shared.first, first);
    EXPECT_EQ(shared.most, most);
    EXPECT_TRUE(shared.tries_fewer);
  }
}

TEST(SharedLimiter, WhereNobodyKnowsTheBestTheyShareTheMost) {
  const Limiter::Settings alone{1, 256, 8};
  for (const auto& [ranks, first, most] :
       {std::tuple(4u, 8u, 64u), {20u, 8u, 13u}, {64u, 4u, 4u}, {1000u, 4u, 4u}}) {
    const Limiter::Settings shared = shared_among(ranks, std::nullopt, BestOf::path, alone);
    EXPECT_EQ(shared.first, first);
    EXPECT_EQ(shared.most, most);
  }
}

}  // namespace
}  // namespace foreload
