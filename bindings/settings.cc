// SPDX-License-Identifier: Apache-2.0
//
// The settings of a loader, as Python gives them: every row of the table by its name.
#include "settings.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "foreload/base/paths.h"
#include "foreload/base/text.h"
#include "foreload/formats/format.h"
#include "foreload/loader/setting_table.h"

namespace foreload::python {
namespace {

using Path = std::filesystem::path;

std::string shown(py::handle value) {
  return py::repr(value);
}

std::string with_commas(const py::handle& number) {
  return py::str("{:,}").format(number);
}

// A whole number between two bounds.
py::int_ whole(std::string_view name, py::handle value, const py::int_& least,
               const py::int_& most) {
  if (PyIndex_Check(value.ptr()) == 0)
    throw py::type_error(fmt::format("{} must be a whole number, not {}", name, shown(value)));
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  if (number < least)
    throw py::value_error(fmt::format("{} must be at least {}, not {}", name, with_commas(least),
                                      with_commas(number)));
  if (number > most)
    throw py::value_error(
        fmt::format("{} must be at most {}, not {}", name, with_commas(most), with_commas(number)));
  return number;
}

bool flag(std::string_view name, py::handle value) {
  if (!py::isinstance<py::bool_>(value) && PyIndex_Check(value.ptr()) == 0 &&
      !py::hasattr(value, "dtype"))  // numpy's truth values
    throw py::type_error(fmt::format("{} must be True or False, not {}", name, shown(value)));
  return py::bool_(py::reinterpret_borrow<py::object>(value));
}

double number(std::string_view name, py::handle value, bool may_be_zero) {
  const double given = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw py::type_error(fmt::format("{} must be a number of seconds, not {}", name, shown(value)));
  }
  if (!(given > 0) && !(may_be_zero && given == 0))
    throw py::value_error(fmt::format("{} is {}: give seconds above 0", name, shown(value)));
  return given;
}

std::string choice(const Setting& setting, py::handle value) {
  const std::string given = py::str(value);
  if (setting.choices.empty()) return given;  // whoever takes it says what is wrong
  if (std::ranges::find(setting.choices, given) != setting.choices.end()) return given;
  std::string listed;
  for (size_t i = 0; i < setting.choices.size(); ++i)
    listed += fmt::format("{}'{}'",
                          i == 0                            ? ""
                          : i + 1 == setting.choices.size() ? " or "
                                                            : ", ",
                          setting.choices[i]);
  const std::string near = nearest(given, setting.choices);
  throw py::value_error(fmt::format("{} is {}: use {}{}", setting.name, shown(value), listed,
                                    near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

Path path(std::string_view name, py::handle value) {
  try {
    return expand_home(value.cast<Path>());
  } catch (const py::cast_error&) {
    throw py::type_error(fmt::format("{} must be a path, not {}", name, shown(value)));
  }
}

// Bytes, as a number or as text with a unit. A small number that is to hold samples forgot its
// unit.
DiskBudget budget(std::string_view name, const Path& folder, py::handle value, bool for_samples) {
  if (py::isinstance<py::str>(value))
    return take(parse_budget(name, folder, value.cast<std::string>()));
  const auto bytes = whole(name, value, 0, py::int_(UINT64_MAX)).cast<uint64_t>();
  if (for_samples && bytes >= 1 && bytes <= 1 << 20)
    throw py::value_error(
        fmt::format("{0}={1}: {2} bytes? Write '{1}GiB', or '{1}B' if you mean it", name, bytes,
                    with_commas(py::int_(bytes))));
  return {folder, bytes, {}};
}

// "FOLDER:SIZE" or (folder, size), or several of these.
std::vector<DiskBudget> disks(std::string_view name, py::handle value) {
  if (py::isinstance<py::str>(value))
    return {take(parse_disk_budget(name, value.cast<std::string>()))};
  if (py::isinstance<py::tuple>(value)) {
    const auto pair = py::reinterpret_borrow<py::tuple>(value);
    if (pair.size() != 2)
      throw py::value_error(
          fmt::format("{} is {}: give a folder and a size, like ('/local/nvme', '100GiB')", name,
                      shown(value)));
    return {budget(name, path(name, pair[0]), pair[1], /*for_samples=*/true)};
  }
  if (!py::isinstance<py::iterable>(value))
    throw py::type_error(fmt::format("{} must be 'FOLDER:SIZE', not {}", name, shown(value)));
  std::vector<DiskBudget> all;
  for (const py::handle each : value) {
    for (DiskBudget& disk : disks(name, each)) all.push_back(std::move(disk));
  }
  return all;
}

std::vector<std::string> extensions(std::string_view name, py::handle value) {
  if (py::isinstance<py::str>(value)) return take(parse_extensions(value.cast<std::string>()));
  try {
    return value.cast<std::vector<std::string>>();
  } catch (const py::cast_error&) {
    throw py::type_error(fmt::format("{} must be texts like '.jpg', not {}", name, shown(value)));
  }
}

SettingValue from_python(const Setting& setting, py::handle value) {
  const std::string_view name = setting.name;
  if (value.is_none() && (setting.kind == SettingKind::disks ||
                          std::holds_alternative<std::monostate>(setting.get(usual_settings()))))
    return {};
  switch (setting.kind) {
    case SettingKind::flag:
      return flag(name, value);
    case SettingKind::count:
      return whole(name, value, py::int_(setting.least), py::int_(setting.most)).cast<uint64_t>();
    case SettingKind::seed: {
      const py::int_ seed = whole(name, value, py::int_(INT64_MIN), py::int_(UINT64_MAX));
      return static_cast<uint64_t>(PyLong_AsUnsignedLongLongMask(seed.ptr()));
    }
    case SettingKind::bytes:
      return budget(name, {}, value, /*for_samples=*/setting.name == "staging").bytes;
    case SettingKind::seconds:
      return number(name, value, /*may_be_zero=*/false);
    case SettingKind::milliseconds:
      return number(name, value, /*may_be_zero=*/true);
    case SettingKind::choice:
      return choice(setting, value);
    case SettingKind::path:
      return path(name, value).native();
    case SettingKind::extensions:
      return extensions(name, value);
    case SettingKind::memory:
      return std::vector{budget(name, {}, value, /*for_samples=*/true)};
    case SettingKind::disks:
      return disks(name, value);
  }
  return {};
}

py::object to_python(const Setting& setting, const SettingValue& value) {
  if (setting.kind == SettingKind::memory)
    return py::int_(std::get<std::vector<DiskBudget>>(value).at(0).bytes);
  if (const auto* all = std::get_if<std::vector<DiskBudget>>(&value)) {
    py::list found;
    for (const DiskBudget& disk : *all)
      found.append(py::make_tuple(file_name(disk.folder.native()), disk.bytes));
    return found;
  }
  if (const auto* text = std::get_if<std::string>(&value)) return file_name(*text);
  return std::visit(
      [](const auto& plain) -> py::object {
        using Plain = std::decay_t<decltype(plain)>;
        if constexpr (std::is_same_v<Plain, std::monostate> ||
                      std::is_same_v<Plain, std::vector<DiskBudget>>)
          return py::none();
        else
          return py::cast(plain);
      },
      value);
}

const Setting* found(std::string_view name) {
  for (const Setting& setting : setting_table())
    if (setting.name == name) return &setting;
  return nullptr;
}

using Ranges = std::vector<std::vector<std::tuple<uint64_t, uint64_t, std::optional<uint64_t>>>>;

// The files of the data set, the ranges of them that samples are made of, and what these are
// called.
void set_files(LoaderSettings& settings, std::vector<std::string> files, const Ranges& ranges,
               std::vector<std::string> part_names) {
  settings.files = std::move(files);
  settings.part_names = std::move(part_names);
  settings.ranges.clear();
  for (const auto& sample : ranges) {
    std::vector<FileRange>& parts = settings.ranges.emplace_back();
    for (const auto& [file, offset, length] : sample)
      parts.push_back({file, offset, length.value_or(FileRange::kToTheEnd)});
  }
}

}  // namespace

void fill(LoaderSettings& settings, const py::dict& given) {
  for (const auto& [key, value] : given) {
    const std::string name = py::str(key);
    const Setting* setting = found(name);
    if (setting == nullptr) throw py::type_error("there is no setting " + name);
    if (name == "order" && py::isinstance<OrderSettings>(value)) {  // more than a name
      settings.order = value.cast<OrderSettings>();
      continue;
    }
    take(setting->set(settings, from_python(*setting, value)));
  }
}

void register_settings(py::module_& module) {
  py::class_<LoaderSettings>(module, "Settings")
      .def(py::init([](const py::kwargs& given) {
        LoaderSettings settings = usual_settings();
        fill(settings, given);
        return settings;
      }))
      .def("set", [](LoaderSettings& settings, const py::kwargs& given) { fill(settings, given); })
      .def("set_files", &set_files, py::arg("files"), py::arg("ranges"),
           py::arg("part_names") = std::vector<std::string>())
      .def(
          "share_folders",
          [](LoaderSettings& settings, uint32_t lane, uint32_t lanes) {
            settings.only_needed = true;
            settings.lane = lane;
            settings.lanes = lanes;
          },
          py::arg("lane"), py::arg("lanes"))
      .def_property_readonly("recorded_json", &recorded_json)
      .def("__getattr__", [](const LoaderSettings& settings, const std::string& name) {
        const Setting* setting = found(name);
        if (setting == nullptr) throw py::attribute_error("there is no setting " + name);
        return to_python(*setting, setting->get(settings));
      });
  module.def("setting_defaults", [] {
    py::dict defaults;
    for (const Setting& setting : setting_table())
      defaults[py::str(std::string(setting.name))] =
          to_python(setting, setting.get(usual_settings()));
    defaults["disk"] = py::none();
    return defaults;
  });
}

}  // namespace foreload::python
