// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/automatic_budget.h"

#include <sys/stat.h>

#include <algorithm>
#include <system_error>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/paths.h"
#include "foreload/tiers/memory_limit.h"

namespace foreload {
namespace {

namespace fs = std::filesystem;

uint64_t held_below(const fs::path& folder) {
  uint64_t held = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator i(folder, error), end; !error && i != end;
       i.increment(error)) {
    struct stat status{};
    if (::lstat(i->path().c_str(), &status) == 0)
      held += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  return held;
}

}  // namespace

Result<AutomaticBudget> automatic_memory(const fs::path& system_root) {
  const MemoryLimit left = memory_left(system_root);
  if (left.bytes == UINT64_MAX)
    return fail(ErrorKind::unreadable,
                "cannot choose a memory budget: neither a control group nor /proc/meminfo says how "
                "much there is; write a size like 8GiB instead of auto");
  return AutomaticBudget{left.bytes / 2, fmt::format("auto: half of the {} left by {}",
                                                     format_bytes(left.bytes), left.who)};
}

Result<AutomaticBudget> automatic_disk(const fs::path& folder) {
  FORELOAD_CHECK(check_new_folder("disk cache", folder));
  std::error_code error;
  const bool there = fs::exists(folder, error);
  const fs::path asked = there ? folder : fs::absolute(folder, error).parent_path();
  const auto space = fs::space(asked, error);
  if (error)
    return fail(ErrorKind::unreadable,
                fmt::format("cannot choose a disk budget in {}: {}; write a size like 100GiB "
                            "instead of auto",
                            folder.native(), error.message()));
  const uint64_t free = space.available + held_below(folder / "foreload-1");
  const uint64_t stays = space.capacity / 10;
  if (free <= stays)
    return fail(ErrorKind::invalid,
                fmt::format("cannot choose a disk budget in {}: of {} only {} are free; free some "
                            "space, or write a size instead of auto",
                            folder.native(), format_bytes(space.capacity), format_bytes(free)));
  return AutomaticBudget{
      std::min(free / 2, free - stays),
      fmt::format("auto: half of the {} free there, a tenth of the file system left alone",
                  format_bytes(free))};
}

}  // namespace foreload
