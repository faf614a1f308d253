// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/scenario.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "foreload/base/text.h"
#include "foreload/policy/eviction.h"
#include "foreload/sim/json_lines.h"
#include "foreload/sim/measured.h"
#include "foreload/sim/rival.h"
#include "foreload/sim/section.h"

namespace foreload::sim {
namespace {

// Files that a scenario names, relative to itself.
struct Folder {
  std::filesystem::path folder;
  std::filesystem::path operator()(const std::string& name) const { return folder / name; }
};

double seconds_for_byte(double rate) {
  return rate > 0 ? 1 / rate : 0;
}

// Curves are of whole requests: their latency is in them.
DeviceSettings as_settings(const DeviceProfile& device) {
  return {device.curve, {}, seconds_for_byte(device.cpu_rate)};
}

// The device of the profile that the section means, if it means one.
std::optional<DeviceProfile> find_device(Section& section, const std::filesystem::path& profile,
                                         DeviceKind kind) {
  std::string name;
  section.text("device", name);
  if (section.failed() || profile.empty() || (name.empty() && section.has("curve"))) {
    if (!name.empty() && profile.empty() && !section.failed())
      section.complain("device", "give cluster.profile too, the file that has it");
    return std::nullopt;
  }
  auto found = profiled_device(profile, name, kind);
  if (found) return std::move(*found);
  section.complain("device", found.error().message);
  return std::nullopt;
}

// A disk writes by itself, memory is written by CPUs.
void use_for_tier(const DeviceProfile& device, TierSettings& tier, ClusterSettings& cluster) {
  tier.read = as_settings(device);
  if (device.kind != DeviceKind::memory) {
    if (device.write_rate > 0) tier.write = Curve::flat(device.write_rate);
    return;
  }
  cluster.fresh_cpu = seconds_for_byte(device.write_rate);
  tier.write_cpu = cluster.ranks_per_node > 1 ? seconds_for_byte(device.shared_write_rate)
                                              : seconds_for_byte(device.write_rate);
}

void read_tier(Section& section, const std::filesystem::path& profile, ClusterSettings& cluster) {
  TierSettings& tier = cluster.tiers.emplace_back();
  tier.name = cluster.tiers.size() == 1 ? "memory" : "disk";
  section.text("name", tier.name);
  section.bytes("capacity", tier.capacity);
  const auto kind = tier.name == "memory" ? DeviceKind::memory : DeviceKind::disk;
  if (const auto device = find_device(section, profile, kind)) use_for_tier(*device, tier, cluster);
  if (profile.empty() && !section.has("curve")) section.missing("curve");
  section.curve("curve", tier.read.curve);
  section.latency("latency", tier.read.latency);
  section.curve("write", tier.write);
  section.count("threads", tier.threads, 0, 1024);
}

void read_source(Section& section, const Folder& folder, const std::filesystem::path& profile,
                 ClusterSettings& cluster) {
  std::string run;
  section.text("run", run);
  if (!run.empty()) {
    const auto measured = measured_run(folder(run));
    if (!measured) return section.complain("run", measured.error().message);
    if (measured->source_rate == 0)
      return section.complain("run", "in this run nothing was read from the source");
    cluster.source.curve = Curve::flat(measured->source_rate);
  } else {
    const auto device = find_device(section, profile, DeviceKind::source);
    if (device) cluster.source = as_settings(*device);
    if (profile.empty() && !section.has("curve")) section.missing("curve");
  }
  section.curve("curve", cluster.source.curve);
  section.latency("latency", cluster.source.latency);
  section.rate("link", cluster.source_link);
}

void read_eviction(Section& section, ClusterSettings& cluster) {
  std::string name(cluster.eviction);
  section.text("eviction", name);
  if (const EvictionRule* rule = find_eviction_rule(name)) {
    cluster.eviction = rule->name;
    return;
  }
  std::vector<std::string> known;
  for (const EvictionRule& rule : eviction_rules()) known.emplace_back(rule.name);
  section.complain("eviction", fmt::format("is \"{}\": use {}{}", name, fmt::join(known, " or "),
                                           did_you_mean(name, known)));
}

void read_cluster(Section& section, const Folder& folder, ClusterSettings& cluster) {
  std::string profile_name;
  section.text("profile", profile_name);
  const std::filesystem::path profile = profile_name.empty() ? "" : folder(profile_name);
  section.count("ranks", cluster.ranks, 1);
  section.count("ranks_per_node", cluster.ranks_per_node, 1);
  section.list("tiers", [&](Section& tier) { read_tier(tier, profile, cluster); });
  if (cluster.tiers.size() > 8) section.complain("tiers", "give at most 8");
  read_eviction(section, cluster);
  if (!section.has("source") && profile.empty()) section.missing("source");
  section.section("source",
                  [&](Section& source) { read_source(source, folder, profile, cluster); });
  if (!section.has("source") && !profile.empty()) {
    const auto found = profiled_device(profile, "", DeviceKind::source);
    if (!found) return section.complain("profile", found.error().message);
    cluster.source = as_settings(*found);
  }
  section.section("network", [&](Section& network) {
    network.rate("rate", cluster.network);
    network.number("latency", cluster.network_latency, 0);
  });
  section.section("staging", [&](Section& staging) {
    staging.bytes("capacity", cluster.staging);
    staging.count("threads", cluster.staging_threads, 1, 1024);
  });
  section.section("preprocess", [&](Section& preprocess) {
    preprocess.rate("rate", cluster.preprocess);
    preprocess.count("threads", cluster.preprocess_threads, 1, 1024);
    preprocess.count("cpus", cluster.preprocess_cpus, 0, 1024);
    preprocess.bytes("bytes", cluster.preprocessed);
  });
}

void read_dataset(Section& section, const Folder& folder, DatasetSettings& dataset) {
  std::string index;
  std::string run;
  section.text("index", index);
  section.text("run", run);
  if (!index.empty()) dataset.index = folder(index);
  if (!run.empty()) {
    const auto measured = measured_run(folder(run));
    if (!measured) return section.complain("run", measured.error().message);
    dataset.samples = measured->samples;
    dataset.mean = measured->bytes / std::max<uint64_t>(1, measured->samples);
  }
  section.count("samples", dataset.samples, 1, UINT32_MAX);
  section.bytes("mean", dataset.mean);
  section.bytes("sigma", dataset.sigma);
  section.count("seed", dataset.seed, 0);
  if (dataset.index.empty() && dataset.samples == 0)
    section.missing("samples", "is missing: give samples and mean, or index");
  if (dataset.index.empty() && dataset.mean == 0) section.missing("mean");
}

void read_objective(Section& section, Objective& objective) {
  std::string name(name_of(objective));
  section.text("objective", name);
  const auto known = parse_objective(name);
  if (!known)
    return section.complain("objective", fmt::format("is \"{}\": use time or traffic", name));
  objective = *known;
}

void read_training(Section& section, const Folder& folder, TrainingSettings& training) {
  std::string run;
  section.text("run", run);
  if (!run.empty()) {
    const auto measured = measured_run(folder(run));
    if (!measured) return section.complain("run", measured.error().message);
    if (measured->compute_rate == 0)
      return section.complain("run", "in this run the loop did nothing but wait");
    training.compute = measured->compute_rate;
  }
  section.count("epochs", training.epochs, 1, 1'000'000);
  section.count("batch_size", training.batch_size, 1, 1 << 24);
  section.flag("drop_last", training.drop_last);
  if (run.empty() && !section.has("compute")) section.missing("compute");
  section.rate("compute", training.compute);
  std::string order;
  section.text("order", order);
  if (!order.empty()) {
    const auto names = order_names();
    if (!parse_order(order))
      section.complain("order", fmt::format("is \"{}\": use {}{}", order, alternatives(names),
                                            did_you_mean(order, names)));
    else
      training.order = order;
  }
  section.count("seed", training.seed, 0);
  section.number("exchange", training.exchange, 0);
  section.number("jitter", training.jitter, 0, 1);
  read_objective(section, training.objective);
  section.section("stragglers", [&](Section& stragglers) {
    stragglers.number("share", training.straggler_share, 0, 1);
    stragglers.number("factor", training.straggler_factor, 1, 1000);
  });
}

void read_policies(Section& section, std::vector<std::string>& policies) {
  const Json* list = section.raw("policies");
  if (list == nullptr) return;
  if (!list->is_array()) return section.complain("policies", "give a list of names");
  std::vector<std::string> known(rival_names().begin(), rival_names().end());
  known.emplace_back("foreload");
  for (const Json& item : *list) {
    const std::string name = item.is_string() ? item.get<std::string>() : item.dump();
    if (std::ranges::find(known, name) == known.end()) {
      return section.complain(
          "policies", fmt::format("unknown policy '{}'{}", name, did_you_mean(name, known)));
    }
    policies.push_back(name);
  }
}

void read_sweeps(Section& section, std::vector<Sweep>& sweeps) {
  const Json* json = section.raw("sweep");
  if (json == nullptr) return;
  if (!json->is_object())
    return section.complain("sweep", "give an object of keys and lists of values");
  for (const auto& [key, values] : json->items()) {
    if (!values.is_array() || values.empty())
      return section.complain("sweep", fmt::format("'{}' needs a list of values", key));
    Sweep& sweep = sweeps.emplace_back();
    sweep.key = key;
    for (const Json& value : values) sweep.values.push_back(value.dump());
  }
}

}  // namespace

Result<ScenarioFile> ScenarioFile::load(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in || std::filesystem::is_directory(file))
    return fail(
        ErrorKind::unreadable,
        fmt::format("cannot read scenario {}: check that the file is there", file.native()));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto scenario = parse(text, file.parent_path());
  if (!scenario)
    return fail(scenario.error().kind, fmt::format("cannot read scenario {}: {}", file.native(),
                                                   scenario.error().message));
  scenario->written_ = text;
  return scenario;
}

Result<ScenarioFile> ScenarioFile::parse(std::string_view json,
                                         const std::filesystem::path& folder) {
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false,
                                  /*ignore_comments=*/true);
  if (parsed.is_discarded())
    return fail(ErrorKind::invalid,
                fmt::format("line {}: it is not JSON from here on", line_of_flaw(json)));
  if (!parsed.is_object())
    return fail(ErrorKind::invalid, "it is not a JSON object; docs/simulator.md has an example");
  ScenarioFile file;
  file.text_ = parsed.dump();
  file.folder_ = folder;
  return file;
}

Result<void> ScenarioFile::set(std::string_view key, std::string_view value) {
  Json json = Json::parse(text_);
  Json* at = &json;
  std::string_view rest = key;
  while (true) {
    const size_t dot = rest.find('.');
    const std::string part(rest.substr(0, dot));
    if (part.empty())
      return fail(ErrorKind::invalid,
                  fmt::format("'{}' is not a key: write it like cluster.tiers.0.capacity", key));
    if (at->is_array()) {
      size_t i = 0;
      const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), i);
      if (error != std::errc() || end != part.data() + part.size()) {
        for (i = 0; i < at->size(); ++i) {
          if ((*at)[i].is_object() && (*at)[i].value("name", "") == part) break;
        }
      }
      if (i >= at->size())
        return fail(ErrorKind::invalid, fmt::format("'{}': the list has {} entries, none is '{}'; "
                                                    "give a number from 0 on, or a name",
                                                    key, at->size(), part));
      at = &(*at)[i];
    } else {
      if (!at->is_object() && !at->is_null())
        return fail(
            ErrorKind::invalid,
            fmt::format("'{}': there is a value before '{}', which has no keys; leave '{}' out",
                        key, part, part));
      at = &(*at)[part];
    }
    if (dot == rest.npos) break;
    rest.remove_prefix(dot + 1);
  }
  const Json parsed = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  *at = parsed.is_discarded() ? Json(std::string(value)) : parsed;
  text_ = json.dump();
  written_.clear();
  return {};
}

Result<Scenario> ScenarioFile::read() const {
  const Json json = Json::parse(text_);
  const Folder folder{folder_};
  std::optional<Error> error;
  Scenario scenario;
  Section top(json, "", error);
  std::string about;
  top.text("name", scenario.name);
  top.text("about", about);
  for (const char* needed : {"cluster", "dataset", "training"}) {
    if (!top.has(needed)) top.missing(needed);
  }
  top.section("cluster", [&](Section& s) { read_cluster(s, folder, scenario.cluster); });
  top.section("dataset", [&](Section& s) { read_dataset(s, folder, scenario.dataset); });
  top.section("training", [&](Section& s) { read_training(s, folder, scenario.training); });
  read_policies(top, scenario.policies);
  read_sweeps(top, scenario.sweeps);
  top.finish();
  if (!error) return scenario;
  if (written_.empty()) return tl::unexpected(*error);
  // What is said begins with the key.
  const std::string_view key = std::string_view(error->message).substr(0, error->message.find(':'));
  return fail(error->kind, fmt::format("line {}: {}", line_of(written_, key), error->message));
}

}  // namespace foreload::sim
