// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/memory_use.h"

#include <sys/resource.h>

namespace foreload {

uint64_t peak_rss() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace foreload
