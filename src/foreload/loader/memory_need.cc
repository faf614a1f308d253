// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/memory_need.h"

#include <fmt/format.h>

#include "foreload/base/bytes.h"

namespace foreload {
namespace {

uint64_t saturating_sum(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

}  // namespace

Result<void> check_memory(const MemoryNeed& need, const MemoryLimit& limit) {
  const uint64_t total = saturating_sum(saturating_sum(need.samples, need.staging), need.index);
  if (total <= limit.bytes) return {};
  return fail(
      ErrorKind::invalid,
      fmt::format("cannot start with {} of memory for samples, {} of staging and {} of index, {} "
                  "in all: {} is {}; lower the memory or the staging budget, or give the job more "
                  "memory",
                  format_bytes(need.samples), format_bytes(need.staging), format_bytes(need.index),
                  format_bytes(total), limit.who, format_bytes(limit.bytes)));
}

}  // namespace foreload
