// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/setting_table.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <optional>
#include <type_traits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/base/bytes.h"
#include "foreload/base/paths.h"
#include "foreload/decode/form.h"
#include "foreload/formats/format.h"
#include "foreload/loader/automatic_budget.h"
#include "foreload/policy/eviction.h"
#include "foreload/tiers/disk_kinds.h"

namespace foreload {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Kind = SettingKind;

// Names, by value.
constexpr std::array<std::string_view, 2> kPads{"repeat", "truncate"};
constexpr std::array<std::string_view, 3> kIoEngines{"auto", "io_uring", "threads"};

template <class T, class... Others>
constexpr bool kIsOneOf = (std::is_same_v<T, Others> || ...);
template <class T>
constexpr bool kIsValue = kIsOneOf<T, bool, double, std::string, std::vector<DiskBudget>>;

// How a field becomes a value, and a value a field.

template <class T>
SettingValue value_of(const T& field) {
  if constexpr (kIsValue<T>) {
    return field;
  } else if constexpr (std::is_integral_v<T>) {
    return uint64_t{field};
  } else if constexpr (kIsOneOf<T, std::optional<uint64_t>>) {
    return field ? SettingValue(*field) : SettingValue();
  } else if constexpr (kIsOneOf<T, Milliseconds>) {
    return std::chrono::duration<double>(field).count();
  } else if constexpr (kIsOneOf<T, std::filesystem::path>) {
    return field.empty() ? SettingValue() : SettingValue(field.native());
  } else if constexpr (kIsOneOf<T, OrderSettings>) {
    return field.name;
  } else {
    const size_t number = static_cast<size_t>(field);
    return std::string(kIsOneOf<T, Pad> ? kPads.at(number) : kIoEngines.at(number));
  }
}

template <class T>
Result<void> assign(const SettingValue& value, T& field) {
  constexpr double kLongest = 1e9;  // seconds: as good as for ever
  if constexpr (kIsOneOf<T, std::optional<uint64_t>, std::filesystem::path> ||
                kIsOneOf<T, std::vector<DiskBudget>>) {
    field = T();
    std::visit(
        [&field]<class V>(const V& given) {
          if constexpr (std::is_assignable_v<T&, V> && !kIsOneOf<V, std::monostate>) field = given;
        },
        value);
  } else if constexpr (kIsValue<T>) {
    field = std::get<T>(value);
  } else if constexpr (std::is_integral_v<T>) {
    field = static_cast<T>(std::get<uint64_t>(value));
  } else if constexpr (kIsOneOf<T, Milliseconds>) {
    field = Milliseconds(std::llround(std::min(std::get<double>(value), kLongest) * 1000));
  } else if constexpr (kIsOneOf<T, OrderSettings>) {
    FORELOAD_TRY(field, parse_order(std::get<std::string>(value)));
  } else if constexpr (kIsOneOf<T, Pad>) {
    FORELOAD_TRY(field, parse_pad(std::get<std::string>(value)));
  } else {
    const auto found = std::ranges::find(kIoEngines, std::get<std::string>(value));
    field = static_cast<T>(found - kIoEngines.begin());
  }
  return {};
}

// A row for a field: `Field` is a pointer to a member, or a function that gives a reference.
template <auto Field>
Setting row(std::string_view name, Kind kind, std::string_view help) {
  return {name, kind, help,
          [](const LoaderSettings& settings) { return value_of(std::invoke(Field, settings)); },
          [](LoaderSettings& settings, const SettingValue& value) {
            return assign(value, std::invoke(Field, settings));
          }};
}

Setting within(Setting setting, uint64_t least, uint64_t most = UINT64_MAX) {
  setting.least = least;
  setting.most = most;
  return setting;
}

Setting one_of(Setting setting, std::vector<std::string> choices) {
  setting.choices = std::move(choices);
  return setting;
}

Setting recorded(Setting setting) {
  setting.recorded = true;
  return setting;
}

constexpr auto kBatchSize = [](auto& settings) -> auto& { return settings.batching.batch_size; };
constexpr auto kDropLast = [](auto& settings) -> auto& { return settings.batching.drop_last; };

// Those whose fields say it in another way.

Setting extensions_row() {
  return {"extensions", Kind::extensions,
          "files that count, like .jpg,.png, or any (those of images)",
          [](const LoaderSettings& settings) {
            return settings.extensions == image_extensions() ? SettingValue()
                                                             : SettingValue(settings.extensions);
          },
          [](LoaderSettings& settings, const SettingValue& value) -> Result<void> {
            const auto* given = std::get_if<std::vector<std::string>>(&value);
            settings.extensions = given ? *given : image_extensions();
            return {};
          }};
}

Setting memory_row() {
  return {
      "memory", Kind::memory,
      "memory of the node for samples, like 200MiB, or auto: half of what is left",
      [](const LoaderSettings& settings) {
        return SettingValue(std::vector<DiskBudget>{{{}, settings.memory, settings.memory_why}});
      },
      [](LoaderSettings& settings, const SettingValue& value) -> Result<void> {
        const DiskBudget& given = std::get<std::vector<DiskBudget>>(value).at(0);
        settings.memory = given.bytes;
        settings.memory_why = given.why;
        return {};
      }};
}

Setting on_error_row() {
  return {"on_error", Kind::choice, "what a bad sample does: raise, or skip it",
          [](const LoaderSettings& settings) {
            return SettingValue(std::string(settings.skip_bad_samples ? "skip" : "raise"));
          },
          [](LoaderSettings& settings, const SettingValue& value) -> Result<void> {
            settings.skip_bad_samples = std::get<std::string>(value) == "skip";
            return {};
          }};
}

Setting profile_row() {
  return {"profile", Kind::path,
          "what foreload probe saved, to start from, or none (~/.cache/foreload/profile.json if it "
          "is there)",
          [](const LoaderSettings& settings) {
            return !settings.profile           ? SettingValue()
                   : settings.profile->empty() ? SettingValue(std::string("none"))
                                               : SettingValue(settings.profile->native());
          },
          [](LoaderSettings& settings, const SettingValue& value) -> Result<void> {
            settings.profile.reset();
            if (const auto* given = std::get_if<std::string>(&value))
              settings.profile = *given == "none" ? "" : *given;
            return {};
          }};
}

// Of the rows of a table of another part.
std::vector<std::string> names_of(const auto& rows) {
  std::vector<std::string> names;
  for (const auto& each : rows) names.emplace_back(each.name);
  return names;
}

Setting objective_row() {
  return {
      "objective", Kind::choice,
      "what reading saves: time, or traffic, which never reads the source while there is a copy",
      [](const LoaderSettings& settings) {
        return SettingValue(std::string(name_of(settings.objective)));
      },
      [](LoaderSettings& settings, const SettingValue& value) -> Result<void> {
        settings.objective = *parse_objective(std::get<std::string>(value));
        return {};
      }};
}

std::vector<Setting> make_table() {
  using S = LoaderSettings;
  return {
      row<&S::dataset>("dataset", Kind::path, "a folder of samples, or a file list"),
      extensions_row(),
      row<&S::index>("index", Kind::path,
                     "file that keeps the listing: used if it is there, written if not (in the "
                     "first disk cache)"),
      row<&S::revalidate>("revalidate", Kind::flag,
                          "list again even if there is a listing, for files changed in place"),
      recorded(row<&S::seed>("seed", Kind::seed, "seed of the shuffle")),
      recorded(within(row<kBatchSize>("batch_size", Kind::count, "samples in a rank's batch"), 1,
                      INT64_MAX)),
      row<kDropLast>("drop_last", Kind::flag, "leave out a last batch that is not full"),
      recorded(within(row<&S::epochs>("epochs", Kind::count, "epochs of the job"), 1, INT64_MAX)),
      recorded(
          within(row<&S::rank>("rank", Kind::count, "which rank, numbered from 0"), 0, UINT32_MAX)),
      recorded(within(row<&S::ranks>("ranks", Kind::count, "ranks of the job"), 1, UINT32_MAX)),
      within(row<&S::ranks_per_node>("ranks_per_node", Kind::count,
                                     "ranks that share a node, its memory and its disks"),
             1, UINT32_MAX),
      row<&S::order>("order", Kind::choice, "torch, sequential or feistel"),
      row<&S::pad>("pad", Kind::choice,
                   "repeat samples or truncate the list so that all ranks read equally many"),
      within(row<&S::first_epoch>("first_epoch", Kind::count, "the epoch to begin with"), 0,
             INT64_MAX),
      within(row<&S::start>("start", Kind::count,
                            "samples of the epoch that all ranks together have consumed already"),
             0, INT64_MAX),
      memory_row(),
      row<&S::disks>("disk", Kind::disks,
                     "folder and size of a disk cache of the node, like /local/nvme:1GiB, or auto "
                     "as size; several may be given, the fastest is used first"),
      one_of(row<&S::disk_kind>("disk_kind", Kind::choice,
                                "how copies lie on disks: segments, or files, one for each that "
                                "others can read"),
             names_of(disk_kinds())),
      one_of(row<&S::form>("form", Kind::choice,
                           "what is kept of samples: encoded, the file, or finished, what the "
                           "transform gives"),
             names_of(forms())),
      one_of(row<&S::eviction>("eviction", Kind::choice,
                               "which second copies give way to what a dead rank held, like "
                               "largest first"),
             names_of(eviction_rules())),
      row<&S::per_rank>("per_rank", Kind::flag,
                        "memory and disk are for each rank, not for all ranks on a node together"),
      row<&S::staging>("staging", Kind::bytes,
                       "memory for batches being filled, 0: 128MiB or what decoding needs"),
      within(
          row<&S::hands>("threads", Kind::count, "threads that copy and decode, 0: as CPUs allow"),
          0, UINT32_MAX),
      one_of(objective_row(), {"time", "traffic"}),
      one_of(on_error_row(), {"raise", "skip"}),
      row<&S::read_deadline>("deadline", Kind::seconds, "seconds until a read is given up"),
      one_of(row<&S::io_engine>("io", Kind::choice, "auto, io_uring or threads"),
             {kIoEngines.begin(), kIoEngines.end()}),
      row<&S::source_bandwidth>("source_bandwidth", Kind::bytes,
                                "make the source slower: bytes a second, like 60MB, 0: as it is"),
      row<&S::source_latency_ms>("source_latency_ms", Kind::milliseconds,
                                 "and each read later by so much"),
      profile_row(),
      one_of(row<&S::transport>("transport", Kind::choice,
                                "how ranks of one job talk: auto, ucx, mpi, host or none"),
             {"auto", "ucx", "mpi", "host", "none"}),
      row<&S::join_timeout>("join_timeout", Kind::seconds,
                            "seconds to wait for the other ranks at the start"),
      row<&S::peer_timeout>("peer_timeout", Kind::seconds,
                            "seconds of silence until another rank is given up"),
  };
}

}  // namespace

const std::vector<Setting>& setting_table() {
  static const std::vector<Setting> table = make_table();
  return table;
}

const Setting& find_setting(std::string_view name) {
  return *std::ranges::find(setting_table(), name, &Setting::name);
}

LoaderSettings usual_settings() {
  LoaderSettings settings;
  settings.extensions = image_extensions();
  return settings;
}

Result<DiskBudget> parse_budget(std::string_view name, const std::filesystem::path& folder,
                                std::string_view size) {
  if (size == "auto") {
    FORELOAD_TRY(AutomaticBudget budget,
                 folder.empty() ? automatic_memory() : automatic_disk(folder));
    return DiskBudget{folder, budget.bytes, std::move(budget.why)};
  }
  const auto bytes = parse_bytes(size);
  if (!bytes) return fail(bytes.error().kind, fmt::format("{}: {}", name, bytes.error().message));
  return DiskBudget{folder, *bytes, {}};
}

Result<DiskBudget> parse_disk_budget(std::string_view name, std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0)
    return fail(
        ErrorKind::invalid,
        fmt::format("{} is '{}': give a folder and a size, like /local/nvme:100GiB", name, text));
  return parse_budget(name, expand_home(text.substr(0, colon)), text.substr(colon + 1));
}

std::string recorded_json(const LoaderSettings& settings) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const Setting& setting : setting_table()) {
    if (!setting.recorded) continue;
    const SettingValue value = setting.get(settings);
    const auto* number = std::get_if<uint64_t>(&value);
    json[std::string(setting.name)] = number ? nlohmann::ordered_json(*number) : nullptr;
  }
  return json.dump();
}

}  // namespace foreload
