// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/sizes.h"

#include <vector>

#include <pybind11/numpy.h>

#include "foreload/dataset/index.h"

#include "calls.h"

namespace foreload::python {

void register_sizes(py::module_& module) {
  using Integers = py::array_t<int64_t, py::array::c_style>;

  py::class_<Sizes>(module, "Sizes", "Bytes of every sample.")
      .def_static(
          "normal",
          [](uint64_t samples, uint64_t mean, uint64_t sigma, uint64_t seed) {
            return compute([&](SignalWatch&) { return Sizes::normal(samples, mean, sigma, seed); });
          },
          py::arg("samples"), py::arg("mean"), py::arg("sigma"), py::arg("seed"))
      .def_static(
          "of",
          [](const Integers& bytes) {
            // -1 becomes kUnknownSize.
            std::vector<uint64_t> each(bytes.data(), bytes.data() + bytes.size());
            return compute([&](SignalWatch&) { return Sizes::of(std::move(each)); });
          },
          py::arg("bytes").noconvert())
      .def_static(
          "of_index",
          [](const DatasetIndex& index) {
            return compute([&](SignalWatch&) { return Sizes::of(index.sample_sizes()); });
          },
          py::arg("index"))
      .def("__len__", &Sizes::samples);
}

}  // namespace foreload::python
