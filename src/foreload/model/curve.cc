// SPDX-License-Identifier: Apache-2.0
#include "foreload/model/curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foreload {
namespace {

bool positive(double number) {
  return std::isfinite(number) && number > 0;
}

}  // namespace

Result<Curve> Curve::create(std::vector<Point> points) {
  if (points.empty()) {
    return fail(ErrorKind::invalid, "a throughput curve needs at least one point");
  }
  for (size_t i = 0; i < points.size(); ++i) {
    const auto [concurrency, rate] = points[i];
    if (!positive(concurrency) || !positive(rate)) {
      return fail(ErrorKind::invalid,
                  fmt::format("point {} of a throughput curve is ({}, {} bytes/s): both must be "
                              "positive numbers",
                              i, concurrency, rate));
    }
    if (i > 0 && concurrency <= points[i - 1].concurrency) {
      return fail(ErrorKind::invalid,
                  fmt::format("point {} of a throughput curve has concurrency {} after {}: it must "
                              "grow from point to point",
                              i, concurrency, points[i - 1].concurrency));
    }
  }
  return Curve(std::move(points));
}

Curve Curve::flat(double rate) {
  return Curve({{1, rate}});
}

Result<Curve> Curve::from_json(std::string_view json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_array()) {
    return fail(ErrorKind::invalid,
                "a throughput curve must be a JSON list of [concurrency, bytes per second]");
  }
  std::vector<Point> points;
  for (const auto& point : parsed) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number()) {
      return fail(ErrorKind::invalid,
                  fmt::format("point {} of a throughput curve must be a pair of numbers, "
                              "[concurrency, bytes per second]",
                              points.size()));
    }
    points.push_back({point[0].get<double>(), point[1].get<double>()});
  }
  return create(std::move(points));
}

std::string Curve::to_json() const {
  auto json = nlohmann::json::array();
  for (const Point& point : points_) json.push_back({point.concurrency, point.rate});
  return json.dump();
}

double Curve::rate(double concurrency) const {
  const auto above = std::ranges::lower_bound(points_, concurrency, {}, &Point::concurrency);
  if (above == points_.end()) return points_.back().rate;
  if (above == points_.begin()) return above->rate;
  const auto below = above - 1;
  const double share =
      (concurrency - below->concurrency) / (above->concurrency - below->concurrency);
  return std::lerp(below->rate, above->rate, share);
}

double Curve::best_concurrency(double tolerance) const {
  const double best = std::ranges::max(points_, {}, &Point::rate).rate;
  const auto enough = [&](const Point& point) { return point.rate >= best * (1 - tolerance); };
  return std::ranges::find_if(points_, enough)->concurrency;
}

double Curve::best_rate() const {
  return std::ranges::max(points_, {}, &Point::rate).rate;
}

}  // namespace foreload
