// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
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

// Opens data sets of the format with this name; of any, if it is empty.
auto open_as(std::string_view format) {
  return [format](const Path& path, const std::optional<Extensions>& extensions) {
    return compute([&](SignalWatch& watch) -> Result<DatasetIndex> {
      FORELOAD_TRY(const ListingOptions options, listing_options(extensions, watch));
      return open_dataset({expand_home(path).native()}, options, format);
    });
  };
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

// Name, label, and object, first byte and length of each part.
py::tuple sample_of(const DatasetIndex& index, int64_t sample) {
  const uint64_t number = within("sample", sample, 0, index.samples());
  py::list parts;
  for (size_t i = 0; i < index.part_count(number); ++i) {
    const Part part = index.part(number, i);
    parts.append(
        py::make_tuple(file_name(index.object_name(part.object)), part.offset, part.length));
  }
  return py::make_tuple(file_name(index.sample_name(number)), index.label(number), parts);
}

py::bytes read(const std::shared_ptr<DatasetIndex>& index, int64_t sample, const Path& store) {
  const uint64_t number = within("sample", sample, 0, index->samples());
  return compute([&](SignalWatch&) { return read_sample(index, number, store.native()); });
}

DatasetIndex parse(const py::bytes& image) {
  const std::string_view bytes = image;
  return take(DatasetIndex::parse(std::as_bytes(std::span(bytes))));
}

py::bytes image_of(const DatasetIndex& index) {
  const auto image = index.image();
  return {reinterpret_cast<const char*>(image.data()), image.size()};
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
      .def_static("from_folder", open_as("folder"), py::arg("path"),
                  py::arg("extensions") = std::nullopt,
                  "The samples of a folder; see foreload.list_folder().")
      .def_static(
          "from_list", [](const Path& path) { return open_as("list")(path, std::nullopt); },
          py::arg("path"),
          "The samples of a file list: one path per line, relative to the list's folder or\n"
          "absolute, and a tab and a label where there are labels.")
      .def_static("open", open_as({}), py::arg("path"), py::arg("extensions") = std::nullopt,
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
      .def(py::pickle(&image_of, &parse))
      .def("sample", &sample_of, py::arg("number"),
           "Name and label of a sample, and object, first byte and length of each of its parts.")
      .def_property_readonly("plain", &DatasetIndex::plain, "Whether each sample is a whole file.")
      .def("read", &read, py::arg("number"), py::arg("store"),
           "The bytes of a sample, from the store that its objects are in: a folder or an address.")
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
