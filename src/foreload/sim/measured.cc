// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/measured.h"

#include <algorithm>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/metrics/run_file.h"

namespace foreload::sim {
namespace {

using Json = nlohmann::ordered_json;

double number(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace

Result<DeviceProfile> profiled_device(const std::filesystem::path& profile, std::string_view name,
                                      DeviceKind kind) {
  FORELOAD_TRY(const MachineProfile machine, MachineProfile::load(profile));
  const DeviceProfile* found = nullptr;
  std::string names;
  for (const DeviceProfile& device : machine.devices) {
    if (name.empty() ? device.kind == kind : device.name == name) found = &device;
    names += (names.empty() ? "" : ", ") + device.name;
  }
  if (found == nullptr)
    return fail(ErrorKind::invalid,
                fmt::format("profile {} has no device {}; it has {}", profile.native(),
                            name.empty() ? fmt::format("of kind {}", name_of(kind))
                                         : fmt::format("'{}'", name),
                            names.empty() ? "none" : names));
  return *found;
}

Result<MeasuredRun> measured_run(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot read run file {}; `foreload read --run-file` writes one",
                            file.native()));
  MeasuredRun run;
  std::string line;
  bool header = false;
  uint64_t epochs = 0;
  double computed = 0;   // bytes
  double computing = 0;  // seconds
  while (std::getline(in, line)) {
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object()) break;  // a torn last line
    if (!header) {
      const double version = number(json, "foreload_run");
      if (version != 1 && version != kRunFileVersion) break;
      header = true;
      run.samples = static_cast<uint64_t>(number(json, "samples"));
      run.bytes = static_cast<uint64_t>(number(json, "bytes"));
      continue;
    }
    const double seconds = number(json, "seconds");
    if (seconds <= 0) continue;  // a moment
    ++epochs;
    const auto from = json.find("from");
    if (from != json.end() && from->is_object())
      run.source_rate = std::max(run.source_rate, number(*from, "source") / seconds);
    computed += number(json, "bytes");
    computing += seconds * (1 - number(json, "wait_fraction"));
  }
  if (computing > 0) run.compute_rate = computed / computing;
  if (!header || epochs == 0)
    return fail(
        ErrorKind::invalid,
        fmt::format("{} is not a run file with at least one epoch; `foreload read --run-file` "
                    "writes one",
                    file.native()));
  return run;
}

}  // namespace foreload::sim
