// SPDX-License-Identifier: Apache-2.0
//
// Whether what a rank will hold in memory fits what the machine or its container gives, all of it
// together. Each budget alone may fit and the sum may not, and then the system ends the job hours
// into the run; so this is asked before anything is opened.
#pragma once

#include <cstdint>

#include "foreload/base/result.h"
#include "foreload/tiers/memory_limit.h"

namespace foreload {

struct MemoryNeed {  // bytes
  uint64_t samples = 0;
  uint64_t staging = 0;
  uint64_t index = 0;
};

// Fails with `invalid` and all the numbers.
Result<void> check_memory(const MemoryNeed& need, const MemoryLimit& limit);

}  // namespace foreload
