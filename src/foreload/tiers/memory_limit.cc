// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory_limit.h"

#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace foreload {
namespace {

namespace fs = std::filesystem;

// Version 1 writes "no limit" as the largest multiple of the page size.
constexpr uint64_t kNoLimit = uint64_t{1} << 62;

void lower(MemoryLimit& limit, uint64_t bytes, std::string who) {
  if (bytes < limit.bytes && bytes < kNoLimit) limit = {bytes, std::move(who)};
}

// Numbers are read as words: in a process with torch in it, streams were seen to read every number
// as 0, for a reason that was not found.
std::optional<uint64_t> next_number(std::istream& in) {
  std::string word;
  if (!(in >> word) || word.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::strtoull(word.c_str(), nullptr, 10);
}

void ask_file(MemoryLimit& limit, const fs::path& file) {
  std::ifstream in(file);
  if (const auto bytes = next_number(in))
    lower(limit, *bytes, fmt::format("the control group's limit ({})", file.native()));
}

// The group itself and all above it count. In a container the path may be the host's, of which only
// the end, or nothing, exists here: whatever exists is asked, the mounted root always.
void ask_groups(MemoryLimit& limit, const fs::path& mounted, std::string_view path,
                const char* file) {
  ask_file(limit, mounted / file);
  fs::path group = mounted;
  for (const fs::path& step : fs::path(path).relative_path()) {
    group /= step;
    ask_file(limit, group / file);
  }
}

}  // namespace

MemoryLimit memory_limit(const fs::path& root) {
  MemoryLimit limit;
  const fs::path groups = root / "sys/fs/cgroup";
  ask_file(limit, groups / "memory.max");
  ask_file(limit, groups / "memory/memory.limit_in_bytes");
  // Lines are "number:controllers:path"; version 2 has number 0 and no controllers.
  std::ifstream membership(root / "proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      ask_groups(limit, groups, path, "memory.max");
      ask_groups(limit, groups / "unified", path, "memory.max");
    } else if (controllers.find(",memory,") != std::string::npos) {
      ask_groups(limit, groups / "memory", path, "memory.limit_in_bytes");
    }
  }
  std::ifstream memory(root / "proc/meminfo");
  for (std::string word; memory >> word;) {
    if (word == "MemAvailable:") {
      if (const auto kibibytes = next_number(memory))
        lower(limit, *kibibytes * 1024, "what the system has available");
      break;
    }
    memory.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return limit;
}

}  // namespace foreload
