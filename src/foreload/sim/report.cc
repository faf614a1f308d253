// SPDX-License-Identifier: Apache-2.0
//
// A simulation as a table for people and as an object for machines.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/bytes.h"
#include "foreload/sim/simulate.h"

namespace foreload::sim {
namespace {

using Json = nlohmann::ordered_json;

// A value of a sweep as people write it.
std::string plain(const std::string& value) {
  const Json json = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  return json.is_string() ? json.get<std::string>() : value;
}

Json json_value(const std::string& value) {
  Json json = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? Json(value) : json;
}

double stall_fraction(const Outcome& outcome) {
  return outcome.seconds > 0 ? std::max(0.0, outcome.stall_seconds) / outcome.seconds : 0;
}

Json hits_json(const PolicyResult& result) {
  Json hits = Json::object();
  for (size_t tier = 0; tier < result.outcome.hits.own.size(); ++tier)
    hits[result.tiers[tier]] = result.outcome.hits.own[tier];
  hits["peer"] = result.outcome.hits.peer;
  hits["source"] = result.outcome.hits.source;
  return hits;
}

std::string hits_text(const PolicyResult& result) {
  const Hits& hits = result.outcome.hits;
  uint64_t all = hits.peer + hits.source;
  for (const uint64_t own : hits.own) all += own;
  if (all == 0) return "-";
  std::string text;
  auto add = [&](const std::string& place, uint64_t count) {
    if (count == 0) return;
    text += fmt::format("{}{} {:.1f} %", text.empty() ? "" : ", ", place,
                        100.0 * static_cast<double>(count) / static_cast<double>(all));
  };
  for (size_t tier = 0; tier < hits.own.size(); ++tier) add(result.tiers[tier], hits.own[tier]);
  add("peer", hits.peer);
  add("source", hits.source);
  return text;
}

std::string set_text(const PolicyResult& result) {
  std::string text;
  for (const auto& [key, value] : result.set)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, plain(value));
  return text;
}

}  // namespace

std::string to_text(const Simulation& simulation) {
  std::string text = simulation.scenario.empty() ? "" : simulation.scenario + "\n";
  std::string set;
  bool first = true;
  for (const PolicyResult& result : simulation.results) {
    const std::string now = set_text(result);
    if (first || now != set) {
      set = now;
      if (!set.empty()) text += fmt::format("\n{}\n", set);
      text += fmt::format("{:<22}{:>12}{:>8}{:>9}{:>12}{:>9}  {}\n", "policy", "seconds", "bound x",
                          "stalled", "source", "least x", "samples from");
    }
    first = false;
    if (!result.supported) {
      text += fmt::format("{:<22}{:>12}  {}\n", result.policy, "-", result.reason);
      continue;
    }
    const Outcome& outcome = result.outcome;
    const auto least = static_cast<double>(result.source_bytes_lower_bound);
    text += fmt::format("{:<22}{:>12.2f}{:>8.2f}{:>7.1f} %{:>12}{:>9.2f}  {}\n", result.policy,
                        outcome.seconds, outcome.seconds / result.lower_bound_seconds,
                        100 * stall_fraction(outcome), format_bytes(outcome.source_bytes),
                        least > 0 ? static_cast<double>(outcome.source_bytes) / least : 0,
                        hits_text(result));
  }
  return text;
}

std::string to_json(const Simulation& simulation, bool stalls) {
  Json results = Json::array();
  for (const PolicyResult& result : simulation.results) {
    Json json{{"policy", result.policy}};
    if (!result.set.empty()) {
      json["set"] = Json::object();
      for (const auto& [key, value] : result.set) json["set"][key] = json_value(value);
    }
    const Outcome& outcome = result.outcome;
    if (result.supported) {
      json["seconds"] = outcome.seconds;
      json["times_lower_bound"] = outcome.seconds / result.lower_bound_seconds;
      json["stall_fraction"] = stall_fraction(outcome);
      json["epoch_seconds"] = outcome.epoch_seconds;
      json["source_bytes"] = outcome.source_bytes;
    } else {
      for (const char* key : {"seconds", "times_lower_bound", "stall_fraction"})
        json[key] = nullptr;
      json["epoch_seconds"] = Json::array();
      json["source_bytes"] = nullptr;
    }
    json["source_bytes_lower_bound"] = result.source_bytes_lower_bound;
    json["hits"] = result.supported ? hits_json(result) : Json::object();
    json["supported"] = result.supported;
    if (!result.supported) json["reason"] = result.reason;
    if (stalls) {
      json["stalls"] = Json::array();
      for (const StepStall& point : outcome.stalls)
        json["stalls"].push_back({point.end, point.share});
    }
    results.push_back(std::move(json));
  }
  return Json{{"scenario", simulation.scenario}, {"results", std::move(results)}}.dump(2);
}

}  // namespace foreload::sim
