// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/cpus.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

namespace foreload {
namespace {

// CPUs allowed by a quota per period, or 0 where there is no limit.
unsigned cpus_of(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  return std::max(1u, static_cast<unsigned>(std::ceil(quota / period)));
}

unsigned cgroup_limit() {
  // Inside a container the cgroup namespace makes its own group the root.
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); file) {
    std::string quota;
    double period = 0;
    file >> quota >> period;
    if (quota == "max") return 0;
    return cpus_of(std::strtod(quota.c_str(), nullptr), period);
  }
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (quota_file >> quota && period_file >> period) return cpus_of(quota, period);
  return 0;
}

}  // namespace

unsigned available_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  unsigned count = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    count = std::max(1u, static_cast<unsigned>(CPU_COUNT(&set)));
  const unsigned limit = cgroup_limit();
  return limit == 0 ? count : std::min(count, limit);
}

}  // namespace foreload
