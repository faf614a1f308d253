// SPDX-License-Identifier: Apache-2.0
//
// What calibration found out about a machine: its devices, each with a throughput curve and a
// latency. `foreload probe` saves it, the policy starts from it, the simulator predicts with it. A
// JSON file that people may read and edit, with a format version.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/model/curve.h"

namespace foreload {

inline constexpr int kProfileVersion = 1;

enum class DeviceKind : uint8_t { memory, disk, source };
std::string_view name_of(DeviceKind kind);

struct DeviceProfile {
  std::string name;
  DeviceKind kind = DeviceKind::source;
  std::string path;  // what was measured; empty for memory
  Curve curve = Curve::flat(1);
  double latency = 0;  // seconds from a request to its first byte, otherwise idle
  // Bytes per second, one writer; of memory, into pages that were not used before. 0: not measured.
  double write_rate = 0;
  double shared_write_rate = 0;  // the same for memory that ranks of a host share
  double cpu_rate = 0;           // source: bytes that a second of CPU time reads; 0: not measured
  std::string note;              // how it was measured, for people; may be empty
  std::string measured_at;       // date and time, "2026-08-11T14:20:00Z"
  friend bool operator==(const DeviceProfile&, const DeviceProfile&) = default;
};

struct MachineProfile {
  std::vector<DeviceProfile> devices;

  // Null if there is none of that name.
  const DeviceProfile* find(std::string_view name) const;
  // Takes the place of the device of that name, or the last place.
  void put(DeviceProfile device);

  std::string to_json() const;
  // Fails with `invalid` where something is missing, twice there, or makes no sense, and names it.
  static Result<MachineProfile> from_json(std::string_view json);
  // Replaces the file only as a whole. Fails with `unreadable`.
  Result<void> save(const std::filesystem::path& file) const;
  // Fails with `unreadable`, and with `invalid` and the name of the file like from_json().
  static Result<MachineProfile> load(const std::filesystem::path& file);

  friend bool operator==(const MachineProfile&, const MachineProfile&) = default;
};

}  // namespace foreload
