// SPDX-License-Identifier: Apache-2.0
//
// The settings of a loader that are plain values, described once: what each is called, what it is
// given as, which values it takes, and one sentence about it. The Python package, the options of
// the program and the header of a run file all go through this table, so a new setting is a field
// of LoaderSettings and a row here.
//
// Values are as people mean them, not as they write them: whoever reads arguments or options turns
// them into a SettingValue by the row's kind, and words what is wrong with them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/loader/loader.h"

namespace foreload {

enum class SettingKind : uint8_t {
  flag,          // bool
  count,         // uint64_t
  seed,          // uint64_t; numbers below 0 count modulo 2^64, as torch has it
  bytes,         // uint64_t
  seconds,       // double, above 0
  milliseconds,  // double, from 0 on
  choice,        // std::string, one of the choices
  path,          // std::string
  extensions,    // std::vector<std::string>, empty: every file
  memory,        // one DiskBudget without a folder
  disks,         // std::vector<DiskBudget>
};

// Nothing (monostate): the setting is left to foreload.
using SettingValue = std::variant<std::monostate, bool, uint64_t, double, std::string,
                                  std::vector<std::string>, std::vector<DiskBudget>>;

struct Setting {
  std::string_view name;  // of the argument; the option has hyphens
  SettingKind kind;
  std::string_view help;  // without the default
  SettingValue (*get)(const LoaderSettings&);
  // Fails with `invalid` for a name that is none of the choices. REQUIRES: the value is of the kind
  // and in range, or nothing where get() may give that.
  Result<void> (*set)(LoaderSettings&, const SettingValue&);
  uint64_t least = 0;
  uint64_t most = UINT64_MAX;
  std::vector<std::string> choices = {};
  bool recorded = false;  // in the header of a run file
};

const std::vector<Setting>& setting_table();
// REQUIRES: there is one of that name.
const Setting& find_setting(std::string_view name);
// What holds where nobody says anything: samples are images.
LoaderSettings usual_settings();

// "FOLDER:SIZE" of a disk cache, or "SIZE" for memory (`folder` empty); the size may be auto. The
// first fails with `invalid` if there is no colon.
Result<DiskBudget> parse_disk_budget(std::string_view name, std::string_view text);
Result<DiskBudget> parse_budget(std::string_view name, const std::filesystem::path& folder,
                                std::string_view size);

// What a run file says of the settings: {"seed":0,"batch_size":64,...}.
std::string recorded_json(const LoaderSettings& settings);

}  // namespace foreload
