// SPDX-License-Identifier: Apache-2.0
//
// The few calls on a segment's file that the disk tier needs: whole reads and writes, with direct
// I/O (past the page cache) where the file system has it. One object may be read by many threads at
// once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "foreload/base/descriptor.h"

namespace foreload::disk_cache {

// The kernel takes at most 2 GiB less a page at once.
inline constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;

// Offsets, sizes and memory must be multiples of kBlockBytes.
class BlockFile {
 public:
  // Opens relative to a folder, with direct I/O if wanted and possible. Null with errno set if not.
  static std::shared_ptr<BlockFile> open(int folder, const char* name, int flags, bool direct);

  int get() const { return descriptor_.get(); }
  bool direct() const { return direct_.load(std::memory_order_relaxed); }
  // Goes on through the page cache, where the file system refused direct I/O after opening.
  void give_up_direct();
  // Reads up to the end of the file; returns the bytes read, or -1 with errno.
  int64_t read(uint64_t offset, std::span<std::byte> into);
  // Writes everything; returns 0 or errno.
  int write(uint64_t offset, std::span<const std::byte> from);
  // Tells the system not to keep these bytes in its page cache. Does nothing with direct I/O.
  void forget(uint64_t offset, uint64_t size) const;

 private:
  Descriptor descriptor_;
  std::atomic<bool> direct_{false};
};

// Memory for direct I/O.
struct FreeBlocks {
  void operator()(std::byte* blocks) const;
};
using Blocks = std::unique_ptr<std::byte[], FreeBlocks>;
// Null if there is no memory. REQUIRES: bytes is a multiple of kBlockBytes, and not 0.
Blocks make_blocks(uint64_t bytes);

}  // namespace foreload::disk_cache
