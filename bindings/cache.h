// SPDX-License-Identifier: Apache-2.0
//
// A cache that loaders of this process share. A child made by fork has none of its threads: there
// it is left alone.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>

#include "foreload/loader/loader.h"

namespace foreload::python {

class CacheCore {
 public:
  // With the budgets of the settings, of which this process has its part; which of `members` it is
  // in the folders of disks.
  CacheCore(LoaderSettings settings, uint32_t member, uint32_t members);
  ~CacheCore();
  CacheCore(const CacheCore&) = delete;
  CacheCore& operator=(const CacheCore&) = delete;

  const std::shared_ptr<Cache>& cache() const { return cache_; }

 private:
  std::shared_ptr<Cache> cache_;
  const pid_t process_ = ::getpid();
};

}  // namespace foreload::python
