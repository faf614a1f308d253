// SPDX-License-Identifier: Apache-2.0
//
// What was measured on a real machine, as values of a scenario: devices of a profile that
// `foreload probe` saved, and what the record of a run (metrics/run_file.h) says about its source,
// its data set and its loop.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>

#include "foreload/base/result.h"
#include "foreload/model/profile.h"

namespace foreload::sim {

// The device of that name, or, for an empty name, the only one of that kind. Fails with `invalid`
// and the names that there are, or as MachineProfile::load() does.
Result<DeviceProfile> profiled_device(const std::filesystem::path& profile, std::string_view name,
                                      DeviceKind kind);

struct MeasuredRun {
  uint64_t samples = 0;
  uint64_t bytes = 0;       // of the data set
  double source_rate = 0;   // bytes per second, the best epoch; 0: nothing was read from it
  double compute_rate = 0;  // bytes per second while the loop did not wait; 0: it always did
};
// Fails with `unreadable`, and with `invalid` for a file that is no run or has no epoch.
Result<MeasuredRun> measured_run(const std::filesystem::path& file);

}  // namespace foreload::sim
