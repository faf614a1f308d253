// SPDX-License-Identifier: Apache-2.0
//
// How a call crosses from Python to C++ and back: work runs without the GIL, Ctrl-C stops it, and a
// failed Result arrives as a Python exception with the same message.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include <pybind11/pybind11.h>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"

namespace foreload::python {

namespace py = pybind11;

// An Error on its way to Python; module.cc knows which exception it becomes.
class Failure : public std::exception {
 public:
  explicit Failure(Error error) : error_(std::move(error)) {}
  const char* what() const noexcept override { return error_.message.c_str(); }
  ErrorKind kind() const { return error_.kind; }

 private:
  Error error_;
};

template <class T>
T take(Result<T> result) {
  if (!result) throw Failure(std::move(result).error());
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

// Sees signals while work runs without the GIL. What a signal's handler raised is kept, the work is
// told to stop, and rethrow() passes it on. For the thread that made it.
class SignalWatch {
 public:
  // False once a handler has raised. Looks at most fifty times a second, because a look takes the
  // GIL from whoever has it. REQUIRES: the GIL is not held.
  bool proceed();
  Progress progress() {
    return [this](uint64_t, uint64_t) { return proceed(); };
  }
  // Throws what a handler raised, if one did. REQUIRES: the GIL is held.
  void rethrow();

 private:
  std::optional<py::error_already_set> raised_;
  std::chrono::steady_clock::time_point next_look_ = {};
};

// Calls work(watch) without the GIL; it returns a Result, whose value or failure is passed on.
template <class Work>
auto compute(Work work) {
  SignalWatch watch;
  auto result = [&] {
    py::gil_scoped_release release;
    return work(watch);
  }();
  watch.rethrow();
  return take(std::move(result));
}

// `value` if it lies in [first, end); throws ValueError that names it otherwise.
uint64_t within(std::string_view name, int64_t value, uint64_t first, uint64_t end);

// File names are bytes; those that are not UTF-8 survive as Python's own file names do.
py::str file_name(std::string_view name);

void register_dataset(py::module_& module);
void register_order(py::module_& module);
void register_settings(py::module_& module);
void register_sizes(py::module_& module);
void register_plan(py::module_& module);
void register_transform(py::module_& module);
void register_cache(py::module_& module);
void register_loader(py::module_& module);
void register_gpu(py::module_& module);
void register_meeting(py::module_& module);
void register_rows(py::module_& module);
void register_mapped_file(py::module_& module);
void register_run_record(py::module_& module);
void register_verdict(py::module_& module);

}  // namespace foreload::python
