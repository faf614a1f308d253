// SPDX-License-Identifier: Apache-2.0
#include "foreload/verdict/verdict.h"

#include <string_view>

#include "calls.h"

namespace foreload::python {

void register_verdict(py::module_& module) {
  module.def(
      "judge",
      [](std::string_view figures) { return to_json(judge(take(figures_from_json(figures)))); },
      py::arg("figures"));
}

}  // namespace foreload::python
