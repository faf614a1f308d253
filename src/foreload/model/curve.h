// SPDX-License-Identifier: Apache-2.0
//
// How fast a device is when so many requests are in flight: straight lines between measured points,
// flat beyond the first and the last. Measured by calibration, used to predict how long reads take.
// Immutable; any thread may read it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

class Curve {
 public:
  struct Point {
    double concurrency = 0;  // requests in flight
    double rate = 0;         // bytes per second, of all of them together
    friend bool operator==(const Point&, const Point&) = default;
  };

  // Fails with `invalid` unless there is a point, concurrency is positive and grows from point to
  // point, and rates are positive; all of them finite.
  static Result<Curve> create(std::vector<Point> points);
  // The same for every number of requests. REQUIRES: rate is positive and finite.
  static Curve flat(double rate);
  // [[concurrency, rate], ...]. Fails with `invalid`.
  static Result<Curve> from_json(std::string_view json);
  std::string to_json() const;

  // Bytes per second with `concurrency` requests in flight.
  double rate(double concurrency) const;
  // The smallest measured concurrency at which no other is faster by more than `tolerance`, a
  // share.
  double best_concurrency(double tolerance = 0.02) const;
  // The most that any number of requests gets together.
  double best_rate() const;
  std::span<const Point> points() const { return points_; }

  friend bool operator==(const Curve&, const Curve&) = default;

 private:
  explicit Curve(std::vector<Point> points) : points_(std::move(points)) {}

  std::vector<Point> points_;  // at least one
};

}  // namespace foreload
