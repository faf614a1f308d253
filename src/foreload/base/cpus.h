// SPDX-License-Identifier: Apache-2.0
//
// How many CPUs this process may really use: the affinity mask, further limited by the CPU quota of
// its cgroup (version 2 or 1). A container with a quota of two CPUs on a machine of 128 gets 2. And
// how much of them it has used.
#pragma once

namespace foreload {

// At least 1.
unsigned available_cpus();

// CPU time of this process so far: all of its threads, in the program and in the system for it.
double cpu_seconds();

}  // namespace foreload
