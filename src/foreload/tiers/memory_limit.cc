// SPDX-License-Identifier: Apache-2.0
#include "foreload/tiers/memory_limit.h"

#include <algorithm>
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

// Numbers are read as words: in a process with torch in it, streams were seen to read every number
// as 0, for a reason that was not found.
std::optional<uint64_t> next_number(std::istream& in) {
  std::string word;
  if (!(in >> word) || word.find_first_not_of("0123456789") != std::string::npos)
    return std::nullopt;
  return std::strtoull(word.c_str(), nullptr, 10);
}

std::optional<uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  return next_number(in);
}

// The files of a group in one version: its limit, what it uses, and how memory.stat calls the page
// cache in that, which the system takes back when others need memory.
struct GroupFiles {
  const char* limit;
  const char* used;
  std::string_view inactive;
  std::string_view active;
};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", "inactive_file", "active_file"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file", "total_active_file"};

uint64_t used_in(const fs::path& group, const GroupFiles& files) {
  uint64_t used = number_in(group / files.used).value_or(0);
  std::ifstream in(group / "memory.stat");
  for (std::string word; in >> word;) {
    const auto bytes = next_number(in);
    if (bytes && (word == files.inactive || word == files.active)) used -= std::min(used, *bytes);
  }
  return used;
}

class Asking {
 public:
  // `left`: what is in use does not count.
  explicit Asking(bool left) : left_(left) {}

  void ask_group(const fs::path& group, const GroupFiles& files) {
    const fs::path file = group / files.limit;
    const auto bytes = number_in(file);
    if (!bytes || *bytes >= kNoLimit) return;
    const uint64_t used = left_ ? std::min(*bytes, used_in(group, files)) : 0;
    lower(*bytes - used, fmt::format("the control group's limit ({})", file.native()));
  }
  // The group itself and all above it count. In a container the path may be the host's, of which
  // only the end, or nothing, exists here: whatever exists is asked, the mounted root always.
  void ask_groups(const fs::path& mounted, std::string_view path, const GroupFiles& files) {
    ask_group(mounted, files);
    fs::path group = mounted;
    for (const fs::path& step : fs::path(path).relative_path()) {
      group /= step;
      ask_group(group, files);
    }
  }
  void lower(uint64_t bytes, std::string who) {
    if (bytes < limit_.bytes && bytes < kNoLimit) limit_ = {bytes, std::move(who)};
  }
  MemoryLimit ask(const fs::path& root);

 private:
  const bool left_;
  MemoryLimit limit_;
};

MemoryLimit Asking::ask(const fs::path& root) {
  const fs::path groups = root / "sys/fs/cgroup";
  ask_group(groups, kVersion2);
  ask_group(groups / "memory", kVersion1);
  // Lines are "number:controllers:path"; version 2 has number 0 and no controllers.
  std::ifstream membership(root / "proc/self/cgroup");
  for (std::string line; std::getline(membership, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      ask_groups(groups, path, kVersion2);
      ask_groups(groups / "unified", path, kVersion2);
    } else if (controllers.find(",memory,") != std::string::npos) {
      ask_groups(groups / "memory", path, kVersion1);
    }
  }
  std::ifstream memory(root / "proc/meminfo");
  for (std::string word; memory >> word;) {
    if (word == "MemAvailable:") {
      if (const auto kibibytes = next_number(memory))
        lower(*kibibytes * 1024, "what the system has available");
      break;
    }
    memory.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return limit_;
}

}  // namespace

MemoryLimit memory_limit(const fs::path& root) {
  return Asking(false).ask(root);
}

MemoryLimit memory_left(const fs::path& root) {
  return Asking(true).ask(root);
}

}  // namespace foreload
