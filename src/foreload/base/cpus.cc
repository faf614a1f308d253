// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/cpus.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

namespace foreload {
namespace {

// CPUs allowed by a quota per period, or 0 where there is no limit.
unsigned cpus_of(double quota, double period) {
  if (!(quota > 0) || !(period > 0)) return 0;
  return std::max(1u, static_cast<unsigned>(std::ceil(quota / period)));
}

// The next number, read as a word: in a process with torch in it, streams were seen to read every
// number as 0, for a reason that was not found. What is no number ("max") is 0.
double next_number(std::istream& in) {
  std::string word;
  in >> word;
  return std::strtod(word.c_str(), nullptr);
}

unsigned cgroup_limit() {
  // Inside a container the cgroup namespace makes its own group the root.
  if (std::ifstream file("/sys/fs/cgroup/cpu.max"); file) {
    const double quota = next_number(file);
    return cpus_of(quota, next_number(file));
  }
  std::ifstream quota_file("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  return cpus_of(next_number(quota_file), next_number(period_file));
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

double cpu_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

}  // namespace foreload
