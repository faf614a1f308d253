// SPDX-License-Identifier: Apache-2.0
//
// Options of a verb that are settings of a loader: name, help, default and parsing come from the
// table of settings.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "foreload/base/result.h"
#include "foreload/loader/setting_table.h"

namespace foreload::cli {

class SettingOptions {
 public:
  // Adds an option for each of these settings; `defaults` hold for what is not given.
  SettingOptions(CLI::App& verb, const std::vector<std::string_view>& names,
                 LoaderSettings defaults = usual_settings());
  // What was given. Fails with `invalid` and one line that names the option.
  Result<LoaderSettings> parse() const;

 private:
  LoaderSettings defaults_;
  std::vector<std::pair<const Setting*, const CLI::Option*>> options_;
};

}  // namespace foreload::cli
