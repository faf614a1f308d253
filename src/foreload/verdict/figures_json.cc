// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/verdict/verdict.h"

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

// Calls visit(name, member) for every plain member; `figures` may be const.
template <class Figures, class Visit>
void visit_members(Figures& figures, const Visit& visit) {
  visit("epoch", figures.epoch);
  visit("seconds", figures.seconds);
  visit("waited", figures.waited);
  visit("first_wait", figures.first_wait);
  visit("own_seconds", figures.own_seconds);
  visit("samples", figures.samples);
  visit("bytes", figures.bytes);
  visit("epoch_samples", figures.epoch_samples);
  visit("cpus", figures.cpus);
  visit("decode_threads", figures.decode_threads);
  visit("transform_workers", figures.transform_workers);
  visit("transform_cpu_seconds", figures.transform_cpu_seconds);
  visit("transform_in_threads", figures.transform_in_threads);
  visit("data_bytes", figures.data_bytes);
  visit("made_from_bytes", figures.made_from_bytes);
  visit("kept_decoded", figures.kept_decoded);
  visit("kept_bytes", figures.kept_bytes);
  visit("disk_bytes", figures.disk_bytes);
  visit("disk_rate", figures.disk_rate);
  visit("nodes", figures.nodes);
  visit("memory_bytes", figures.memory_bytes);
  visit("memory_left", figures.memory_left);
  visit("skipped", figures.skipped);
  visit("skipped_names", figures.skipped_names);
  visit("lost_tiers", figures.lost_tiers);
  visit("dead_peers", figures.dead_peers);
  visit("retries", figures.retries);
  visit("corrupt_copies", figures.corrupt_copies);
}

template <class Stage, class Visit>
void visit_stage(Stage& stage, const Visit& visit) {
  visit("busy_seconds", stage.busy_seconds);
  visit("bytes", stage.bytes);
}

// Whether the value is what the member can hold.
template <class Member>
bool fits(const Json& value) {
  if constexpr (std::is_same_v<Member, bool>) {
    return value.is_boolean();
  } else if constexpr (std::is_floating_point_v<Member>) {
    return value.is_number() && value.get<double>() >= 0;
  } else if constexpr (std::is_integral_v<Member>) {
    return value.is_number_unsigned() &&
           value.get<uint64_t>() <= std::numeric_limits<Member>::max();
  } else if constexpr (std::is_same_v<Member, std::string>) {
    return value.is_string();
  } else {
    if (!value.is_array()) return false;
    for (const Json& entry : value)
      if (!fits<typename Member::value_type>(entry)) return false;
    return true;
  }
}

// Takes members out of an object and says which of its keys it did not know, or could not take.
class Taker {
 public:
  explicit Taker(const Json& object) : object_(object) {}

  template <class Member>
  void operator()(const char* name, Member& member) {
    const auto found = object_.find(name);
    if (found == object_.end()) return;
    ++known_;
    if (fits<Member>(*found))
      member = found->template get<Member>();
    else if (wrong_.empty())
      wrong_ = name;
  }
  size_t known() const { return known_; }
  const std::string& wrong() const { return wrong_; }

 private:
  const Json& object_;
  size_t known_ = 0;
  std::string wrong_;
};

auto refuse(const std::string& key) {
  return fail(ErrorKind::invalid, fmt::format("cannot read figures of an epoch: '{}' is unknown or "
                                              "has a wrong value; give what epoch_stats() gives",
                                              key));
}

Result<void> take_stages(const Json& stages, EpochFigures& figures) {
  size_t known = 0;
  for (size_t i = 0; i < kLimits; ++i) {
    const std::string name(name_of(static_cast<Limit>(i)));
    const auto found = stages.find(name);
    if (found == stages.end()) continue;
    ++known;
    if (!found->is_object()) return refuse("stages." + name);
    Taker taker(*found);
    visit_stage(figures.stages[i], std::ref(taker));
    if (!taker.wrong().empty()) return refuse("stages." + name + "." + taker.wrong());
    if (taker.known() != found->size()) return refuse("stages." + name);
  }
  if (known != stages.size()) return refuse("stages");
  return {};
}

}  // namespace

std::string to_json(const Verdict& verdict) {
  Json helps = Json::array();
  for (const Help& help : verdict.helps)
    helps.push_back({{"what", help.what}, {"seconds", help.seconds}, {"times", help.times}});
  const Json json{{"limit", name_of(verdict.limit)}, {"waited", verdict.waited},
                  {"seconds", verdict.seconds},      {"text", verdict.text},
                  {"helps", std::move(helps)},       {"losses", verdict.losses}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const EpochFigures& figures) {
  Json json = Json::object();
  visit_members(figures, [&json](const char* name, const auto& member) { json[name] = member; });
  for (size_t i = 0; i < kLimits; ++i) {
    Json stage = Json::object();
    visit_stage(figures.stages[i],
                [&stage](const char* name, const auto& member) { stage[name] = member; });
    json["stages"][std::string(name_of(static_cast<Limit>(i)))] = std::move(stage);
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<EpochFigures> figures_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return refuse("figures");
  EpochFigures figures;
  Taker taker(json);
  visit_members(figures, std::ref(taker));
  if (!taker.wrong().empty()) return refuse(taker.wrong());
  if (const auto stages = json.find("stages"); stages != json.end()) {
    if (!stages->is_object()) return refuse("stages");
    FORELOAD_CHECK(take_stages(*stages, figures));
  }
  for (const auto& [key, value] : json.items()) {
    bool is_known = key == "stages";
    visit_members(figures, [&](const char* name, const auto&) { is_known |= key == name; });
    if (!is_known) return refuse(key);
  }
  return figures;
}

}  // namespace foreload
