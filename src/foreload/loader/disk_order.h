// SPDX-License-Identifier: Apache-2.0
//
// In which order the disks of a rank are tiers: the fastest first, by a saved profile where that
// knows all of them, otherwise by reading a few small blocks of each. For one thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>
#include <vector>

#include "foreload/model/profile.h"

namespace foreload {

enum class SpeedFrom : uint8_t { nobody, profile, measured };
std::string_view name_of(SpeedFrom from);

struct RankedDisk {
  size_t number = 0;  // in the order given
  double rate = 0;    // bytes per second; 0: not known
  SpeedFrom from = SpeedFrom::nobody;
};

// Bytes per second of a folder's disk, 0 if it could not be measured.
using MeasureDisk = std::function<double(const std::filesystem::path& folder)>;

// All disks, the fastest first. One that is not clearly faster (by a fifth) does not overtake, so
// that noise does not change the order from run to run. `measure` is called if there are several
// and the profile lacks one of them; empty: they then stay in the order given.
std::vector<RankedDisk> order_disks(const std::vector<std::filesystem::path>& folders,
                                    const MachineProfile& machine, const MeasureDisk& measure);

}  // namespace foreload
