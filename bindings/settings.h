// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "foreload/loader/loader.h"

#include "calls.h"

namespace foreload::python {

// Sets what is given, by the names of the table of settings. Throws TypeError or ValueError that
// name the setting in one line.
void fill(LoaderSettings& settings, const py::dict& given);

}  // namespace foreload::python
