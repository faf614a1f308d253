// SPDX-License-Identifier: Apache-2.0
//
// What a saved machine profile says about the paths of a run: how many requests to begin with, and
// how fast a disk is. Without a profile the engine finds out by itself; with one it begins there.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/model/profile.h"
#include "foreload/policy/limiter.h"

namespace foreload {

// Where `foreload probe` saves: $XDG_CACHE_HOME/foreload/profile.json, or ~/.cache/... Empty where
// the environment names neither.
std::filesystem::path default_profile_file();

struct LoadedProfile {
  MachineProfile machine;      // no devices if there is no profile
  std::filesystem::path file;  // empty if there is none
  std::string warning;         // why the default one was left out; empty otherwise
};

// `named`: the file to load, or empty for none; nothing means the default file if it is there. Only
// a named file can fail, as MachineProfile::load() does.
Result<LoadedProfile> load_profile(const std::optional<std::filesystem::path>& named);

// The device of that kind on the path's file system whose path has the most in common with it, from
// the root on. Null if no such device was measured. The path need not exist yet.
const DeviceProfile* measured_at(const MachineProfile& machine, DeviceKind kind,
                                 const std::filesystem::path& path);

// The rate at its best concurrency, in bytes per second.
double best_rate(const DeviceProfile& device);

// Its best concurrency, in whole requests. Nothing of a device that was not measured (null).
std::optional<double> best_concurrency(const DeviceProfile* device);

}  // namespace foreload
