// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/starting_point.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <system_error>
#include <utility>

namespace foreload {
namespace {

namespace fs = std::filesystem;

// The file system of the path, or of the folder in which it would be made.
std::optional<dev_t> file_system_of(fs::path path) {
  struct stat status{};
  while (::stat(path.c_str(), &status) != 0) {
    if (path == path.parent_path()) return std::nullopt;
    path = path.parent_path();
  }
  return status.st_dev;
}

fs::path whole(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? fs::absolute(path, error).lexically_normal() : result;
}

std::ptrdiff_t steps_in_common(const fs::path& a, const fs::path& b) {
  return std::distance(a.begin(), std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first);
}

}  // namespace

fs::path default_profile_file() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return fs::path(cache) / "foreload" / "profile.json";
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0')
    return fs::path(home) / ".cache" / "foreload" / "profile.json";
  return {};
}

Result<LoadedProfile> load_profile(const std::optional<fs::path>& named) {
  LoadedProfile loaded;
  const fs::path file = named ? *named : default_profile_file();
  if (file.empty()) return loaded;
  std::error_code error;
  if (!named && fs::status(file, error).type() == fs::file_type::not_found) return loaded;
  auto machine = MachineProfile::load(file);
  if (machine) {
    loaded.machine = std::move(*machine);
    loaded.file = file;
  } else if (named) {
    return tl::unexpected(std::move(machine).error());
  } else {
    loaded.warning = std::move(machine).error().message;
  }
  return loaded;
}

const DeviceProfile* measured_at(const MachineProfile& machine, DeviceKind kind,
                                 const fs::path& path) {
  const fs::path wanted = whole(path);
  const auto file_system = file_system_of(wanted);
  const DeviceProfile* best = nullptr;
  std::ptrdiff_t most = 0;
  for (const DeviceProfile& device : machine.devices) {
    if (device.kind != kind || !file_system) continue;
    struct stat status{};
    if (::stat(device.path.c_str(), &status) != 0 || status.st_dev != *file_system) continue;
    const std::ptrdiff_t common = steps_in_common(whole(device.path), wanted);
    if (common <= most) continue;
    most = common;
    best = &device;
  }
  return best;
}

double best_rate(const DeviceProfile& device) {
  return device.curve.rate(device.curve.best_concurrency());
}

std::optional<double> best_concurrency(const DeviceProfile* device) {
  if (device == nullptr) return std::nullopt;
  return std::max(1.0, std::round(device->curve.best_concurrency()));
}

}  // namespace foreload
