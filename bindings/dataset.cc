// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "foreload/base/bytes.h"
#include "foreload/base/paths.h"
#include "foreload/dataset/index.h"
#include "foreload/formats/format.h"

#include "calls.h"

namespace foreload::python {

namespace {

using Path = std::filesystem::path;

// "any" for every file, ".jpg,.png", or a list.
using Extensions = std::variant<std::string, std::vector<std::string>>;

Result<ListingOptions> listing_options(const std::optional<Extensions>& extensions,
                                       SignalWatch& watch) {
  ListingOptions options;
  options.progress = watch.progress();
  if (extensions) {
    const auto* text = std::get_if<std::string>(&*extensions);
    FORELOAD_TRY(options.extensions,
                 parse_extensions(
                     text ? *text : fmt::format("{}", fmt::join(std::get<1>(*extensions), ","))));
  }
  return options;
}

DatasetIndex from_folder(const Path& folder, const std::optional<Extensions>& extensions) {
  return compute([&](SignalWatch& watch) -> Result<DatasetIndex> {
    FORELOAD_TRY(const ListingOptions options, listing_options(extensions, watch));
    return open_dataset({expand_home(folder).native()}, options, "folder");
  });
}

DatasetIndex from_list(const Path& list) {
  return compute([&](SignalWatch& watch) -> Result<DatasetIndex> {
    FORELOAD_TRY(const ListingOptions options, listing_options(std::nullopt, watch));
    return open_dataset({expand_home(list).native()}, options, "list");
  });
}

DatasetIndex open(const Path& path, const std::optional<Extensions>& extensions) {
  return compute([&](SignalWatch& watch) -> Result<DatasetIndex> {
    FORELOAD_TRY(const ListingOptions options, listing_options(extensions, watch));
    return open_dataset({expand_home(path).native()}, options);
  });
}

// File names are bytes; those that are not UTF-8 survive as Python's own file names do.
py::str file_name(std::string_view name) {
  PyObject* text = PyUnicode_DecodeFSDefaultAndSize(name.data(), std::ssize(name));
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

py::list names(const DatasetIndex& index) {
  py::list names;
  for (uint64_t sample = 0; sample < index.samples(); ++sample)
    names.append(file_name(index.sample_name(sample)));
  return names;
}

py::list classes(const DatasetIndex& index) {
  py::list names;
  for (size_t label = 0; label < index.classes(); ++label) {
    names.append(file_name(index.class_name(label)));
  }
  return names;
}

template <class Value>
py::array_t<int64_t> by_sample(const DatasetIndex& index, Value value) {
  py::array_t<int64_t> array(static_cast<py::ssize_t>(index.samples()));
  int64_t* out = array.mutable_data();
  {
    py::gil_scoped_release release;
    for (uint64_t sample = 0; sample < index.samples(); ++sample) {
      out[sample] = static_cast<int64_t>(value(sample));
    }
  }
  return array;
}

}  // namespace

void register_dataset(py::module_& module) {
  py::class_<DatasetIndex, std::shared_ptr<DatasetIndex>> index(
      module, "Index",
      "Which samples a data set has, how large they are, and their labels.\n\n"
      "Made by Index.from_folder(), Index.from_list() or Index.load(); never changes.");
  index.attr("__module__") = "foreload";
  index
      .def_static("from_folder", &from_folder, py::arg("path"),
                  py::arg("extensions") = std::nullopt,
                  "The samples of a folder; see foreload.list_folder().")
      .def_static(
          "from_list", &from_list, py::arg("path"),
          "The samples of a file list: one path per line, relative to the list's folder or\n"
          "absolute, and a tab and a label where there are labels.")
      .def_static("open", &open, py::arg("path"), py::arg("extensions") = std::nullopt,
                  "The samples of a folder, a file list or an index file, whichever it is.")
      .def_static(
          "load",
          [](const Path& path) {
            return compute([&](SignalWatch&) { return DatasetIndex::load(expand_home(path)); });
          },
          py::arg("path"), "Open an index that was saved; reads neither folders nor samples.")
      .def(
          "save",
          [](const DatasetIndex& self, const Path& path) {
            compute([&](SignalWatch&) { return self.save(expand_home(path)); });
          },
          py::arg("path"), "Write the index to a file, whole or not at all.")
      .def("__len__", &DatasetIndex::samples)
      .def("__repr__",
           [](const DatasetIndex& self) {
             return fmt::format("<foreload.Index: {} samples, {} classes>",
                                format_count(self.samples()), format_count(self.classes()));
           })
      .def_property_readonly("names", &names, "Name of each sample's file, relative to the folder.")
      .def_property_readonly(
          "sizes",
          [](const DatasetIndex& self) {
            return by_sample(self, [&](uint64_t sample) { return self.sample_size(sample); });
          },
          "Bytes of each sample, -1 where nobody knows.")
      .def_property_readonly(
          "labels",
          [](const DatasetIndex& self) {
            return by_sample(self, [&](uint64_t sample) { return self.label(sample); });
          },
          "Label of each sample, an index into `classes`.")
      .def_property_readonly("classes", &classes, "Name of each label; empty for a flat folder.")
      .def_property_readonly(
          "fingerprint", [](const DatasetIndex& self) { return self.fingerprint().hex(); },
          "Says which samples these are; equal for equal names in equal order.");
}

}  // namespace foreload::python
