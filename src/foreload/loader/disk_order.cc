// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/disk_order.h"

#include <algorithm>

#include "foreload/loader/starting_point.h"

namespace foreload {
namespace {

constexpr double kClearly = 1.2;

std::vector<RankedDisk> fastest_first(const std::vector<RankedDisk>& given) {
  std::vector<RankedDisk> order;
  for (const RankedDisk& disk : given) {
    auto place = order.end();
    while (place != order.begin() && disk.rate > kClearly * (place - 1)->rate) --place;
    order.insert(place, disk);
  }
  return order;
}

}  // namespace

std::string_view name_of(SpeedFrom from) {
  switch (from) {
    case SpeedFrom::nobody:
      return "nobody";
    case SpeedFrom::profile:
      return "profile";
    case SpeedFrom::measured:
      return "measured";
  }
  return "unknown";
}

std::vector<RankedDisk> order_disks(const std::vector<std::filesystem::path>& folders,
                                    const MachineProfile& machine, const MeasureDisk& measure) {
  std::vector<RankedDisk> disks;
  for (size_t i = 0; i < folders.size(); ++i) {
    disks.push_back({i, 0, SpeedFrom::nobody});
    if (const auto* device = measured_at(machine, DeviceKind::disk, folders[i]))
      disks[i] = {i, best_rate(*device), SpeedFrom::profile};
  }
  const bool all_known = std::ranges::all_of(
      disks, [](const RankedDisk& disk) { return disk.from == SpeedFrom::profile; });
  if (disks.size() < 2) return disks;
  if (!all_known && !measure) return disks;
  if (!all_known) {
    for (size_t i = 0; i < disks.size(); ++i) {
      const double rate = measure(folders[i]);
      disks[i] = {i, rate, rate > 0 ? SpeedFrom::measured : SpeedFrom::nobody};
    }
  }
  return fastest_first(disks);
}

}  // namespace foreload
