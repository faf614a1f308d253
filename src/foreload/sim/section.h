// SPDX-License-Identifier: Apache-2.0
//
// Reads one object of a scenario file. Every key is asked for once; the first thing that is wrong
// becomes the error, with the key's whole path, and a key that nobody asked for is an error that
// names the nearest known one.
//
// For one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "foreload/base/result.h"
#include "foreload/sim/scenario.h"

namespace foreload::sim {

using Json = nlohmann::ordered_json;

class Section {
 public:
  // `error` is shared by all sections of a file. REQUIRES: both outlive the section.
  Section(const Json& json, std::string path, std::optional<Error>& error);

  // Each leaves `value` alone if the key is not there.
  void text(const char* key, std::string& value);
  void flag(const char* key, bool& value);
  void count(const char* key, uint64_t& value, uint64_t least, uint64_t most = UINT32_MAX);
  void count(const char* key, uint32_t& value, uint32_t least, uint32_t most = 1 << 20);
  void number(const char* key, double& value, double least, double most = 1e18);
  // 50000, "50GB".
  void bytes(const char* key, uint64_t& value);
  // Bytes per second: 66e6, "66MB/s".
  void rate(const char* key, double& value);
  void rate(const char* key, std::optional<double>& value);
  // A rate for any number of readers, or [[readers, rate], ...].
  void curve(const char* key, Curve& value);
  void curve(const char* key, std::optional<Curve>& value);
  // Seconds, or {"mean": seconds, "spread": ...}.
  void latency(const char* key, Latency& value);
  // Calls `read` with the section, or each of a list.
  void section(const char* key, const std::function<void(Section&)>& read);
  void list(const char* key, const std::function<void(Section&)>& read);
  // Any value.
  const Json* raw(const char* key);

  bool has(const char* key) const { return json_.is_object() && json_.contains(key); }
  void complain(std::string_view key, std::string_view what);
  // Like complain(), but only if no key is unknown: a misspelt one is why another is missing.
  void missing(std::string_view key, std::string_view what = "is missing");
  bool failed() const { return error_.has_value(); }
  std::string path_of(std::string_view key) const;
  // Complains about keys that nobody asked for, then about missing ones.
  void finish();

 private:
  std::optional<double> rate_of(const Json& value, std::string_view key);

  const Json& json_;
  std::string path_;
  std::optional<Error>& error_;
  std::vector<std::string> known_;
  std::optional<Error> missing_;
};

}  // namespace foreload::sim
