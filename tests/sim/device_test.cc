// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/device.h"

#include <algorithm>
#include <map>
#include <random>

#include <gtest/gtest.h>

namespace foreload::sim {
namespace {

std::shared_ptr<const ShareTable> table(std::vector<Curve::Point> points) {
  return std::make_shared<const ShareTable>(*Curve::create(std::move(points)));
}

TEST(Device, OneReadTakesItsSizeOverTheRate) {
  Agenda agenda;
  Device device(table({{1, 50}}), agenda);
  device.start(agenda, 200, 7);
  EXPECT_EQ(agenda.next(), device.slot());
  EXPECT_EQ(device.end(agenda), 7u);
  EXPECT_DOUBLE_EQ(agenda.now(), 4);
  EXPECT_TRUE(agenda.empty());
}

TEST(Device, ReadersShareWhatTheCurveGivesForTheirNumber) {
  Agenda agenda;
  Device device(table({{1, 60}, {2, 100}}), agenda);
  device.start(agenda, 100, 1);
  device.start(agenda, 200, 2);
  agenda.next();
  EXPECT_EQ(device.end(agenda), 1u);  // 100 bytes at 50 each
  EXPECT_DOUBLE_EQ(agenda.now(), 2);
  agenda.next();
  EXPECT_EQ(device.end(agenda), 2u);  // the other 100 alone, at 60
  EXPECT_DOUBLE_EQ(agenda.now(), 2 + 100.0 / 60);
}

TEST(Device, ClampsTheCurveBeyondItsLastPoint) {
  const ShareTable shares(*Curve::create({{1, 10}, {4, 40}}));
  EXPECT_DOUBLE_EQ(shares.share(2), 10);
  EXPECT_DOUBLE_EQ(shares.share(4), 10);
  EXPECT_DOUBLE_EQ(shares.share(400), 0.1);
  EXPECT_DOUBLE_EQ(shares.best(), 40);
}

TEST(Device, AnEmptyReadEndsAtOnce) {
  Agenda agenda;
  Device device(table({{1, 50}}), agenda);
  device.start(agenda, 0, 3);
  agenda.next();
  EXPECT_EQ(device.end(agenda), 3u);
  EXPECT_EQ(agenda.now(), 0);
}

TEST(Device, HangsWhenItsSpeedIsZeroAndGoesOnLater) {
  Agenda agenda;
  Device device(table({{1, 10}}), agenda);
  const uint32_t alarm = agenda.add();
  device.start(agenda, 100, 1);
  agenda.set(alarm, 4);
  EXPECT_EQ(agenda.next(), alarm);
  device.set_speed(agenda, 0);
  EXPECT_TRUE(agenda.empty());
  agenda.set(alarm, 10);
  EXPECT_EQ(agenda.next(), alarm);
  device.set_speed(agenda, 0.5);
  EXPECT_EQ(agenda.next(), device.slot());
  EXPECT_DOUBLE_EQ(agenda.now(), 10 + 60 / 5.0);
}

// The same device by looking at every read whenever something changes.
class Rescanned {
 public:
  explicit Rescanned(Curve curve) : curve_(std::move(curve)) {}
  void start(Time now, double bytes, uint64_t ticket) {
    pass(now);
    left_[ticket] = bytes;
  }
  std::pair<Time, uint64_t> next() const {
    const auto least = std::ranges::min_element(left_, {}, [](auto& read) { return read.second; });
    return {as_of_ + least->second / share(), least->first};
  }
  void end(Time now, uint64_t ticket) {
    pass(now);
    left_.erase(ticket);
  }

 private:
  double share() const {
    const auto n = static_cast<double>(left_.size());
    return curve_.rate(n) / n;
  }
  void pass(Time now) {
    for (auto& [ticket, left] : left_) left -= share() * (now - as_of_);
    as_of_ = now;
  }
  Curve curve_;
  Time as_of_ = 0;
  std::map<uint64_t, double> left_;
};

TEST(Device, AgreesWithRescanningEveryRead) {
  std::mt19937_64 random(5);
  const Curve curve = *Curve::create({{1, 66}, {2, 86}, {4, 146}, {8, 326}, {16, 324}});
  Agenda agenda;
  Device device(std::make_shared<const ShareTable>(curve), agenda);
  Rescanned slow(curve);
  uint64_t ticket = 0;
  for (int step = 0; step < 5'000; ++step) {
    if (device.readers() == 0 || (device.readers() < 24 && random() % 2 == 0)) {
      const uint64_t bytes = 1 + random() % 1000;
      device.start(agenda, bytes, ticket);
      slow.start(agenda.now(), static_cast<double>(bytes), ticket++);
    } else {
      const auto expected = slow.next();
      agenda.next();
      const uint64_t ended = device.end(agenda);
      ASSERT_NEAR(agenda.now(), expected.first, 1e-6 * expected.first);
      slow.end(agenda.now(), ended);
    }
  }
}

}  // namespace
}  // namespace foreload::sim
