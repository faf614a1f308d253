// SPDX-License-Identifier: Apache-2.0
//
// Statistics of a loader as JSON; the program and the Python package show the same.
#pragma once

#include <string>

#include "foreload/loader/loader.h"

namespace foreload {

// One epoch; `digest` of what was delivered is left out where it is empty.
std::string to_json(const EpochStats& epoch, const std::string& digest = {});
std::string to_json(const LoaderStats& stats);

}  // namespace foreload
