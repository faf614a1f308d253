// SPDX-License-Identifier: Apache-2.0
//
// Bytes for memory tiers to keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "foreload/base/hash.h"
#include "foreload/base/random.h"
#include "foreload/tiers/memory.h"

namespace foreload {

using Bytes = std::vector<std::byte>;

inline Bytes some_bytes(uint64_t seed, size_t size) {
  Bytes bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(mix64(seed * 1009 + i + 1));
  return bytes;
}

inline bool put(MemoryTier& tier, uint64_t sample, const Bytes& bytes) {
  return tier.put(sample, bytes, checksum64(bytes));
}

}  // namespace foreload
