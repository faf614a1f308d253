// SPDX-License-Identifier: Apache-2.0
//
// How a loader began, as JSON: what order its tiers have and why, which profile and index it used.
// Beside report.h, whose figures change during the run.
#pragma once

#include <string>

#include "foreload/loader/loader.h"

namespace foreload {

// {"profile", "source_first_concurrency", "index_file", "listing": {"from", "age_seconds", "file",
// "changed_folder", "text"}, "tiers": [{"name", "folder", "bytes", "budget_from",
// "bytes_per_second", "speed_from", "first_concurrency", "in_use_by"}], "warnings"}
std::string to_json(const LoaderStart& start);
// Tiers with a budget, for people: "2.0 GiB memory, 10.0 GiB /local/nvme"; empty: none.
std::string tiers_text(const LoaderStart& start);

}  // namespace foreload
