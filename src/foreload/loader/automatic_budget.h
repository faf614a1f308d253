// SPDX-License-Identifier: Apache-2.0
//
// Budgets that the user leaves to foreload ("auto"): half of what is left, so that the training
// program has as much as the cache. Any thread may call these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "foreload/base/result.h"

namespace foreload {

struct AutomaticBudget {
  uint64_t bytes = 0;
  std::string why;  // "auto: half of the 15.6 GiB that the control group's limit (FILE) leaves"
};

// Of the memory that the control groups leave, or that the system has available, if that is less;
// page cache counts as free. `system_root` as for memory_left(). Fails with `unreadable` if nobody
// says how much there is.
Result<AutomaticBudget> automatic_memory(const std::filesystem::path& system_root = "/");

// Of the space that is free for a disk cache in the folder, what caches hold there already
// included, but a tenth of the file system stays free. Fails with `unreadable` if the file system
// does not say, with `invalid` if there is no such tenth.
Result<AutomaticBudget> automatic_disk(const std::filesystem::path& folder);

}  // namespace foreload
