// SPDX-License-Identifier: Apache-2.0
//
// The record of a run, for loaders in Python; times are taken here.
#include "foreload/metrics/run_record.h"

#include <chrono>
#include <filesystem>
#include <string>

#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include "calls.h"

namespace foreload::python {

void register_run_record(py::module_& module) {
  using Clock = std::chrono::steady_clock;
  using Text = std::string;
  constexpr auto seconds = [](double count) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(count));
  };
  py::class_<RunRecord>(module, "RunRecord")
      .def(py::init([](const std::filesystem::path& file, const Text& header) {
             return take(RunRecord::create(file, header, Clock::now()));
           }),
           py::arg("file"), py::arg("header"))
      .def("begin_epoch",
           [seconds](RunRecord& record, uint64_t epoch, uint64_t batches, const Text& stats,
                     double ago) {
             record.begin_epoch(epoch, batches, stats, Clock::now() - seconds(ago));
           })
      .def("batch",
           [seconds](RunRecord& record, double waited, uint64_t samples) {
             return static_cast<int>(record.batch(seconds(waited), samples, Clock::now()));
           })
      .def("tell", [](RunRecord& record, const Text& epoch,
                      const Text& stats) { take(record.tell(epoch, stats, Clock::now())); })
      .def("moment", [](RunRecord& record, const Text& epoch,
                        const Text& stats) { take(record.moment(epoch, stats, Clock::now())); })
      .def(
          "end_epoch",
          [](RunRecord& record, const Text& epoch, const Text& stats) {
            take(record.end_epoch(epoch, stats, Clock::now()));
          },
          py::call_guard<py::gil_scoped_release>())
      .def("close", [](RunRecord& record) { take(record.close(Clock::now())); })
      .def_property_readonly("text", &RunRecord::text);
}

}  // namespace foreload::python
