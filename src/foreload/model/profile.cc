// SPDX-License-Identifier: Apache-2.0
#include "foreload/model/profile.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/files.h"

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kKinds{"memory", "disk", "source"};  // by DeviceKind

// Rates that may be missing.
struct OptionalRate {
  const char* key;
  double DeviceProfile::* rate;
};
constexpr std::array kRates{OptionalRate{"write_rate", &DeviceProfile::write_rate},
                            OptionalRate{"shared_write_rate", &DeviceProfile::shared_write_rate},
                            OptionalRate{"cpu_rate", &DeviceProfile::cpu_rate}};

std::optional<std::string> text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

// A finite number and not below 0; nothing if it is something else.
std::optional<double> amount_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  if (!std::isfinite(value) || value < 0) return std::nullopt;
  return value;
}

Result<DeviceProfile> parse_device(const Json& json, size_t number) {
  const auto name = text_of(json, "name");
  if (!name || name->empty()) {
    return fail(ErrorKind::invalid, fmt::format("device {} has no name", number));
  }
  const auto flaw = [&name](std::string_view what) {
    return fail(ErrorKind::invalid, fmt::format("device '{}': {}", *name, what));
  };
  DeviceProfile device;
  device.name = *name;
  const auto kind_name = text_of(json, "kind");
  const auto kind = std::ranges::find(kKinds, kind_name.value_or(""));
  if (kind == kKinds.end()) return flaw("\"kind\" must be memory, disk or source");
  device.kind = static_cast<DeviceKind>(kind - kKinds.begin());
  device.path = text_of(json, "path").value_or("");
  if (device.path.empty() && device.kind != DeviceKind::memory) return flaw("\"path\" is missing");
  const auto latency = amount_of(json, "latency_seconds");
  if (!latency) return flaw("\"latency_seconds\" must be a number and not below 0");
  device.latency = *latency;
  for (const OptionalRate& optional : kRates) {
    if (!json.contains(optional.key)) continue;
    const auto rate = amount_of(json, optional.key);
    if (!rate) return flaw(fmt::format("\"{}\" must be a number and not below 0", optional.key));
    device.*optional.rate = *rate;
  }
  device.note = text_of(json, "note").value_or("");
  const auto curve = json.find("curve");
  if (curve == json.end()) return flaw("\"curve\" is missing");
  auto parsed = Curve::from_json(curve->dump());
  if (!parsed) return flaw(parsed.error().message);
  device.curve = std::move(*parsed);
  device.measured_at = text_of(json, "measured_at").value_or("");
  return device;
}

}  // namespace

std::string_view name_of(DeviceKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

const DeviceProfile* MachineProfile::find(std::string_view name) const {
  const auto found = std::ranges::find(devices, name, &DeviceProfile::name);
  return found == devices.end() ? nullptr : &*found;
}

void MachineProfile::put(DeviceProfile device) {
  const auto found = std::ranges::find(devices, device.name, &DeviceProfile::name);
  if (found == devices.end()) {
    devices.push_back(std::move(device));
  } else {
    *found = std::move(device);
  }
}

std::string MachineProfile::to_json() const {
  auto list = Json::array();
  for (const DeviceProfile& device : devices) {
    Json json{{"name", device.name},
              {"kind", name_of(device.kind)},
              {"path", device.path},
              {"latency_seconds", device.latency},
              {"curve", Json::parse(device.curve.to_json())}};
    for (const OptionalRate& optional : kRates) {
      if (device.*optional.rate > 0) json[optional.key] = device.*optional.rate;
    }
    if (!device.note.empty()) json["note"] = device.note;
    json["measured_at"] = device.measured_at;
    list.push_back(std::move(json));
  }
  const Json json{{"foreload_profile", kProfileVersion}, {"devices", std::move(list)}};
  // Paths need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<MachineProfile> MachineProfile::from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("foreload_profile")) {
    return fail(ErrorKind::invalid, "it is not a machine profile; `foreload probe` writes one");
  }
  if (json["foreload_profile"] != kProfileVersion) {
    return fail(ErrorKind::invalid,
                fmt::format("format version {} is not known, only {}; measure again with "
                            "`foreload probe`",
                            json["foreload_profile"].dump(), kProfileVersion));
  }
  const auto list = json.find("devices");
  if (list == json.end() || !list->is_array()) {
    return fail(ErrorKind::invalid, "the list \"devices\" is missing");
  }
  MachineProfile profile;
  for (const Json& item : *list) {
    FORELOAD_TRY(DeviceProfile device, parse_device(item, profile.devices.size()));
    if (profile.find(device.name) != nullptr) {
      return fail(ErrorKind::invalid, fmt::format("device '{}' is there twice", device.name));
    }
    profile.devices.push_back(std::move(device));
  }
  return profile;
}

Result<void> MachineProfile::save(const std::filesystem::path& file) const {
  const std::string text = to_json();
  const int error = replace_file(file, std::as_bytes(std::span(text)));
  if (error == 0) return {};
  return fail(ErrorKind::unreadable,
              fmt::format("cannot write machine profile {}: {}. Check that its folder exists, is "
                          "writable and has space left.",
                          file.native(), system_message(error)));
}

Result<MachineProfile> MachineProfile::load(const std::filesystem::path& file) {
  std::string text;
  if (const int error = read_file(file, text)) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot read machine profile {}: {}. `foreload probe` writes one.",
                            file.native(), system_message(error)));
  }
  auto profile = from_json(text);
  if (!profile) {
    return fail(profile.error().kind, fmt::format("cannot use machine profile {}: {}",
                                                  file.native(), profile.error().message));
  }
  return profile;
}

}  // namespace foreload
