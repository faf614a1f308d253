// SPDX-License-Identifier: Apache-2.0
#include "foreload/model/curve.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace foreload {
namespace {

Curve disk() {
  return *Curve::create({{1, 100e6}, {2, 130e6}, {4, 150e6}, {8, 120e6}, {32, 70e6}});
}

std::string flaw(std::vector<Curve::Point> points) {
  const auto curve = Curve::create(std::move(points));
  EXPECT_FALSE(curve);
  if (curve) return "";
  EXPECT_EQ(curve.error().kind, ErrorKind::invalid);
  EXPECT_EQ(curve.error().message.find('\n'), std::string::npos);
  return curve.error().message;
}

TEST(Curve, GoesThroughItsPoints) {
  const Curve curve = disk();
  for (const Curve::Point& point : curve.points()) {
    EXPECT_EQ(curve.rate(point.concurrency), point.rate);
  }
}

TEST(Curve, IsStraightBetweenPoints) {
  EXPECT_DOUBLE_EQ(disk().rate(3), 140e6);
  EXPECT_DOUBLE_EQ(disk().rate(1.5), 115e6);
  EXPECT_DOUBLE_EQ(disk().rate(20), 95e6);
}

TEST(Curve, IsFlatBeyondItsEnds) {
  EXPECT_EQ(disk().rate(0), 100e6);
  EXPECT_EQ(disk().rate(-3), 100e6);
  EXPECT_EQ(disk().rate(1e9), 70e6);
  EXPECT_EQ(Curve::flat(5).rate(0), 5);
  EXPECT_EQ(Curve::flat(5).rate(77), 5);
}

TEST(Curve, BestConcurrencyIsTheSmallestThatIsAsFast) {
  EXPECT_EQ(disk().best_concurrency(), 4);
  EXPECT_EQ(disk().best_concurrency(0.2), 2);
  EXPECT_EQ(Curve::create({{1, 10}, {8, 99}, {16, 100}})->best_concurrency(), 8);
}

TEST(Curve, JsonComesBackTheSame) {
  const Curve curve = *Curve::create({{0.5, 1.0 / 3}, {2, 123456789012345.0}});
  const auto again = Curve::from_json(curve.to_json());
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, curve);
  EXPECT_EQ(*Curve::from_json("[[1, 100], [2, 130.5]]"), *Curve::create({{1, 100}, {2, 130.5}}));
}

TEST(Curve, RefusesWhatMakesNoSense) {
  EXPECT_EQ(flaw({}), "a throughput curve needs at least one point");
  EXPECT_EQ(flaw({{1, 5}, {0, 5}}),
            "point 1 of a throughput curve is (0, 5 bytes/s): both must be positive numbers");
  EXPECT_NE(flaw({{1, 0}}), "");
  EXPECT_NE(flaw({{1, std::nan("")}}), "");
  EXPECT_NE(flaw({{std::numeric_limits<double>::infinity(), 3}}), "");
  EXPECT_EQ(flaw({{1, 5}, {4, 6}, {4, 7}}),
            "point 2 of a throughput curve has concurrency 4 after 4: it must grow from point to "
            "point");
}

TEST(Curve, RefusesWhatIsNoCurve) {
  for (const char* json : {"", "{", "7", "{}", "[]", "[1, 2]", "[[1]]", "[[1, 2, 3]]",
                           "[[1, \"2\"]]", "[[1, null]]", "[[2, 1], [1, 1]]"}) {
    const auto curve = Curve::from_json(json);
    ASSERT_FALSE(curve) << json;
    EXPECT_EQ(curve.error().kind, ErrorKind::invalid);
  }
}

}  // namespace
}  // namespace foreload
