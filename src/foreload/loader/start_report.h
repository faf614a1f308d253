// SPDX-License-Identifier: Apache-2.0
//
// How a loader began, as JSON: what order its tiers have and why, which profile and index it used.
// Beside report.h, whose figures change during the run.
#pragma once

#include <string>

#include "foreload/loader/loader.h"

namespace foreload {

// {"profile", "source_first_concurrency", "index_file", "tiers": [{"name", "folder", "bytes",
// "bytes_per_second", "speed_from", "first_concurrency"}], "warnings"}
std::string to_json(const LoaderStart& start);

}  // namespace foreload
