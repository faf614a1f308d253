// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/section.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/text.h"

namespace foreload::sim {

Section::Section(const Json& json, std::string path, std::optional<Error>& error)
    : json_(json), path_(std::move(path)), error_(error) {
  if (!json_.is_object() && !error_)
    error_ = Error{ErrorKind::invalid, fmt::format("{} must be an object", path_)};
}

std::string Section::path_of(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

void Section::complain(std::string_view key, std::string_view what) {
  if (!error_) error_ = Error{ErrorKind::invalid, fmt::format("{}: {}", path_of(key), what)};
}

void Section::missing(std::string_view key, std::string_view what) {
  if (!missing_) missing_ = Error{ErrorKind::invalid, fmt::format("{}: {}", path_of(key), what)};
}

const Json* Section::raw(const char* key) {
  known_.emplace_back(key);
  if (!json_.is_object()) return nullptr;
  const auto found = json_.find(key);
  return found == json_.end() ? nullptr : &*found;
}

void Section::text(const char* key, std::string& value) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  if (!json->is_string()) return complain(key, "give a text");
  value = json->get<std::string>();
}

void Section::flag(const char* key, bool& value) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  if (!json->is_boolean()) return complain(key, "give true or false");
  value = json->get<bool>();
}

void Section::count(const char* key, uint64_t& value, uint64_t least, uint64_t most) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  const double number = json->is_number() ? json->get<double>() : -1;
  if (number < static_cast<double>(least) || number > static_cast<double>(most) ||
      number != std::floor(number))
    return complain(
        key, fmt::format("is {}: give a whole number from {} to {}", json->dump(), least, most));
  value = static_cast<uint64_t>(number);
}

void Section::count(const char* key, uint32_t& value, uint32_t least, uint32_t most) {
  uint64_t wide = value;
  count(key, wide, least, most);
  value = static_cast<uint32_t>(wide);
}

void Section::number(const char* key, double& value, double least, double most) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  const double given = json->is_number() ? json->get<double>() : NAN;
  if (!(given >= least && given <= most))
    return complain(key,
                    fmt::format("is {}: give a number from {} to {}", json->dump(), least, most));
  value = given;
}

void Section::bytes(const char* key, uint64_t& value) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  if (json->is_string()) {
    const auto parsed = parse_bytes(json->get<std::string>());
    if (!parsed) return complain(key, parsed.error().message);
    value = *parsed;
    return;
  }
  const double number = json->is_number() ? json->get<double>() : -1;
  if (!(number >= 0 && number < 1e18))
    return complain(key, fmt::format("is {}: give a size like \"50GB\", or bytes", json->dump()));
  value = static_cast<uint64_t>(number);
}

std::optional<double> Section::rate_of(const Json& value, std::string_view key) {
  double rate = 0;
  if (value.is_number()) {
    rate = value.get<double>();
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (text.ends_with("/s")) {
      const auto parsed = parse_bytes(std::string_view(text).substr(0, text.size() - 2));
      if (parsed) rate = static_cast<double>(*parsed);
    }
  }
  if (std::isfinite(rate) && rate > 0) return rate;
  complain(key,
           fmt::format("is {}: give a rate like \"66MB/s\", or bytes per second", value.dump()));
  return std::nullopt;
}

void Section::rate(const char* key, std::optional<double>& value) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  if (json->is_null())
    value.reset();
  else if (const auto rate = rate_of(*json, key))
    value = rate;
}

void Section::rate(const char* key, double& value) {
  std::optional<double> rate_given = value;
  rate(key, rate_given);
  value = rate_given.value_or(value);
}

void Section::curve(const char* key, std::optional<Curve>& value) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  if (json->is_null()) return value.reset();
  if (!json->is_array()) {
    if (const auto rate = rate_of(*json, key)) value = Curve::flat(*rate);
    return;
  }
  std::vector<Curve::Point> points;
  for (const Json& point : *json) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number())
      return complain(key, "give pairs [readers, rate], like [[1, \"66MB/s\"], [4, \"146MB/s\"]]");
    const auto rate = rate_of(point[1], key);
    if (!rate) return;
    points.push_back({point[0].get<double>(), *rate});
  }
  auto curve = Curve::create(std::move(points));
  if (!curve) return complain(key, curve.error().message);
  value = std::move(*curve);
}

void Section::curve(const char* key, Curve& value) {
  std::optional<Curve> given = value;
  curve(key, given);
  if (given) value = std::move(*given);
}

void Section::latency(const char* key, Latency& value) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  if (json->is_object()) {
    Section inner(*json, path_of(key), error_);
    inner.number("mean", value.mean, 0);
    inner.number("spread", value.spread, 0, 10);
    return inner.finish();
  }
  if (!json->is_number() || !(json->get<double>() >= 0))
    return complain(
        key, fmt::format("is {}: give seconds, or an object with mean and spread", json->dump()));
  value = {json->get<double>(), 0};
}

void Section::section(const char* key, const std::function<void(Section&)>& read) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  Section inner(*json, path_of(key), error_);
  if (failed()) return;
  read(inner);
  inner.finish();
}

void Section::list(const char* key, const std::function<void(Section&)>& read) {
  const Json* json = raw(key);
  if (json == nullptr) return;
  if (!json->is_array()) return complain(key, "give a list");
  size_t i = 0;
  for (const Json& item : *json) {
    Section inner(item, fmt::format("{}.{}", path_of(key), i++), error_);
    if (failed()) return;
    read(inner);
    inner.finish();
  }
}

void Section::finish() {
  if (failed() || !json_.is_object()) return;
  for (const auto& [key, value] : json_.items()) {
    if (std::ranges::find(known_, key) != known_.end()) continue;
    const std::string near = nearest(key, known_);
    std::string all;
    for (const std::string& name : known_) all += (all.empty() ? "" : ", ") + name;
    return complain(key, near.empty() ? fmt::format("unknown key; known are {}", all)
                                      : fmt::format("unknown key; did you mean {}?", near));
  }
  error_ = missing_;
}

}  // namespace foreload::sim
