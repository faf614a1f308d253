// SPDX-License-Identifier: Apache-2.0
//
// Copies bytes and gives the checksum of the copy. In small pieces, each checksummed while it is in
// the fastest cache and the next one is on its way from memory: that costs little more than copying
// alone. Any thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "foreload/base/hash.h"

namespace foreload {

// How a copy out of a tier's memory ended.
enum class Copied : uint8_t {
  hit,
  miss,     // it is not here
  corrupt,  // it was, with other bytes than were put; its owner drops it
};

inline constexpr size_t kCopiedPiece = 2048;

// What is checksummed is the copy: bytes that change in between must not slip through.
inline void checked_copy(const std::byte* from, std::span<std::byte> into, Checksum64& checksum) {
  constexpr size_t kCacheLine = 64;
  for (size_t done = 0; done < into.size(); done += kCopiedPiece) {
    const size_t size = std::min(kCopiedPiece, into.size() - done);
    std::memcpy(into.data() + done, from + done, size);
    const size_t next = std::min(kCopiedPiece, into.size() - done - size);
    for (size_t line = 0; line < next; line += kCacheLine)
      __builtin_prefetch(from + done + size + line);
    checksum.add(into.subspan(done, size));
  }
}
inline uint64_t checked_copy(const std::byte* from, std::span<std::byte> into) {
  if (into.size() <= kCopiedPiece) {
    if (!into.empty()) std::memcpy(into.data(), from, into.size());
    return checksum64(into);
  }
  Checksum64 checksum;
  checked_copy(from, into, checksum);
  return checksum.value();
}

}  // namespace foreload
