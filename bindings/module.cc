// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "foreload/base/bytes.h"
#include "foreload/base/paths.h"
#include "foreload/base/text.h"
#include "foreload/base/version.h"
#include "foreload/plan/placement.h"

#include "calls.h"

namespace foreload::python {

bool SignalWatch::proceed() {
  if (raised_) return false;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return true;
  py::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() != 0) raised_.emplace();
  next_look_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  return !raised_;
}

void SignalWatch::rethrow() {
  if (raised_) throw py::error_already_set(std::move(*raised_));
}

uint64_t within(std::string_view name, int64_t value, uint64_t first, uint64_t end) {
  const auto number = static_cast<uint64_t>(value);
  if (value < 0 || number < first || number >= end) {
    throw py::value_error(fmt::format("{} {} is outside {} .. {}", name, value, first, end - 1));
  }
  return number;
}

py::str file_name(std::string_view name) {
  PyObject* text = PyUnicode_DecodeFSDefaultAndSize(name.data(), std::ssize(name));
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

namespace {

void register_errors(py::module_& module) {
  static py::handle corrupt_error =
      py::exception<Failure>(module, "CorruptError", PyExc_ValueError).release();
  corrupt_error.attr("__module__") = "foreload";
  corrupt_error.attr("__doc__") = "Bytes were read but are not what was written.";

  // Names of files need not be UTF-8, and messages hold them.
  static const auto set_error = [](py::handle type, const char* message) {
    const auto text = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(message, static_cast<Py_ssize_t>(std::strlen(message)), "replace"));
    if (text) PyErr_SetObject(type.ptr(), text.ptr());
  };
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      switch (failure.kind()) {
        case ErrorKind::invalid:
        case ErrorKind::unsupported:
          return set_error(PyExc_ValueError, failure.what());
        case ErrorKind::unreadable:
          return set_error(PyExc_OSError, failure.what());
        case ErrorKind::corrupt:
          return set_error(corrupt_error, failure.what());
        case ErrorKind::cancelled:
          return set_error(PyExc_KeyboardInterrupt, failure.what());
      }
    }
  });
}

}  // namespace

PYBIND11_MODULE(_core, module) {
  module.doc() = "The C++ side of foreload; import foreload instead.";
  module.attr("__version__") = version();
  module.attr("NO_OWNER") = kNoOwner;
  register_errors(module);
  module.def(
      "parse_bytes", [](std::string_view text) { return take(parse_bytes(text)); },
      py::arg("text"));
  module.def("format_bytes", &format_bytes, py::arg("bytes"));
  module.def("nearest", &nearest, py::arg("name"), py::arg("names"));
  module.def(
      "check_output_file",
      [](std::string_view what, const std::filesystem::path& file) {
        take(check_output_file(what, file));
      },
      py::arg("what"), py::arg("file"));
  register_dataset(module);
  register_order(module);
  register_settings(module);
  register_sizes(module);
  register_plan(module);
  register_transform(module);
  register_meeting(module);
  register_rows(module);
  register_mapped_file(module);
  register_run_record(module);
  register_cache(module);
  register_loader(module);
  register_gpu(module);
  register_verdict(module);
}

}  // namespace foreload::python
