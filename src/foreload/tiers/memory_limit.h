// SPDX-License-Identifier: Apache-2.0
//
// How much memory this process may fill: the limits of its control groups (version 2 and 1), and
// what the system could give without swapping. A cache that ignores them is ended by the system
// hours into a run, so the memory tier asks before it maps anything. Any thread may call it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace foreload {

struct MemoryLimit {
  uint64_t bytes = UINT64_MAX;  // UINT64_MAX: nobody set one
  std::string who;              // "the control group's limit (/sys/fs/cgroup/memory.max)"
};

// The smallest limit that applies. `root` is where /proc and /sys are looked for, for tests.
MemoryLimit memory_limit(const std::filesystem::path& root = "/");
// The same, less what is in use in each group, page cache not counted.
MemoryLimit memory_left(const std::filesystem::path& root = "/");

}  // namespace foreload
