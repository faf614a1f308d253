// SPDX-License-Identifier: Apache-2.0
#include "foreload/cli/setting_options.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "foreload/base/text.h"
#include "foreload/cli/arguments.h"
#include "foreload/formats/format.h"

namespace foreload::cli {
namespace {

// "(64)", empty where nothing is the default, or where the help says what happens then.
std::string default_text(const Setting& setting, const LoaderSettings& defaults) {
  const SettingValue value = setting.get(defaults);
  if (const auto* number = std::get_if<uint64_t>(&value)) return fmt::format(" ({})", *number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format(" ({})", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return fmt::format(" ({})", *text);
  return setting.kind == SettingKind::memory ? " (0)" : "";
}

// The value that the texts after an option mean.
Result<SettingValue> value_of(const Setting& setting, const std::string& option,
                              const std::vector<std::string>& texts) {
  const std::string& text = texts.back();
  switch (setting.kind) {
    case SettingKind::flag:
      return SettingValue(text == "true");
    case SettingKind::count: {
      const uint64_t most = setting.most == INT64_MAX ? UINT64_MAX : setting.most;
      return parse_count(option, text, setting.least, most);
    }
    case SettingKind::seed:
      return parse_count(option, text);
    case SettingKind::bytes:
      return parse_size(option, text);
    case SettingKind::milliseconds:
      if (text == "0") return SettingValue(0.0);
      [[fallthrough]];
    case SettingKind::seconds:
      return parse_rate(option, text);
    case SettingKind::choice:
      if (!setting.choices.empty()) FORELOAD_CHECK(check_choice(option, text, setting.choices));
      return SettingValue(text);
    case SettingKind::path:
      return SettingValue(text);
    case SettingKind::extensions:
      return parse_extensions(text);
    case SettingKind::memory: {
      FORELOAD_TRY(DiskBudget budget, parse_budget(option, {}, text));
      return SettingValue(std::vector{std::move(budget)});
    }
    case SettingKind::disks: {
      std::vector<DiskBudget> disks;
      for (const std::string& each : texts) {
        FORELOAD_TRY(DiskBudget disk, parse_disk_budget(option, each));
        disks.push_back(std::move(disk));
      }
      return SettingValue(std::move(disks));
    }
  }
  return SettingValue();
}

}  // namespace

SettingOptions::SettingOptions(CLI::App& verb, const std::vector<std::string_view>& names,
                               LoaderSettings defaults)
    : defaults_(std::move(defaults)) {
  for (const std::string_view name : names) {
    const Setting& setting = find_setting(name);
    std::string option = fmt::format("--{}", name);
    std::ranges::replace(option, '_', '-');
    const std::string help = fmt::format("{}{}", setting.help, default_text(setting, defaults_));
    if (setting.kind == SettingKind::flag) {
      options_.emplace_back(&setting, verb.add_flag(option, help));
      continue;
    }
    CLI::Option* added = verb.add_option(
                                 option, [](const CLI::results_t&) { return true; }, help)
                             ->type_name("TEXT");
    if (setting.kind == SettingKind::path) expands_home(added);
    if (setting.kind == SettingKind::disks) added->expected(CLI::detail::expected_max_vector_size);
    options_.emplace_back(&setting, added);
  }
}

Result<LoaderSettings> SettingOptions::parse() const {
  LoaderSettings settings = defaults_;
  for (const auto& [setting, option] : options_) {
    if (option->count() == 0) continue;
    // A path with ~ has been expanded in what is reduced.
    const auto texts = setting->kind == SettingKind::flag
                           ? std::vector<std::string>{option->as<bool>() ? "true" : "false"}
                           : option->reduced_results();
    FORELOAD_TRY(const SettingValue value, value_of(*setting, option->get_name(), texts));
    FORELOAD_CHECK(setting->set(settings, value));
  }
  return settings;
}

}  // namespace foreload::cli
