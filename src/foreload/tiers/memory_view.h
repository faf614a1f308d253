// SPDX-License-Identifier: Apache-2.0
//
// The copies in another rank's memory on this host, read in place. The owner need not do anything,
// nor run at all; it may drop and rewrite copies at any time, and whoever reads just then gets a
// miss, never other bytes. What a view holds mapped stays there for it even when the owner has
// ended.
//
// Any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "foreload/base/result.h"
#include "foreload/tiers/checked_copy.h"
#include "foreload/tiers/memory_layout.h"
#include "foreload/tiers/tier.h"

namespace foreload {

class MemoryView {
 public:
  // Maps what MemoryCopies::memory() of another process is; the descriptor may be closed
  // afterwards. Fails with `invalid` if it is not such memory, `unreadable` if the system refuses.
  // REQUIRES: the file's size is sealed.
  static Result<std::shared_ptr<const MemoryView>> map(int memory);
  ~MemoryView();
  MemoryView(const MemoryView&) = delete;
  MemoryView& operator=(const MemoryView&) = delete;

  // Copies a copy out and checks it. A miss if it is not of this size, which is that of `into`.
  Copied get(const CopyKey& key, uint64_t size, std::span<std::byte> into) const;

 private:
  MemoryView() = default;
  // The entry of this key as far as one can see; null if there is none.
  const memory_layout::Entry* find(const CopyKey& key) const;

  std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;  // mapped
  memory_layout::Range range_;
};

}  // namespace foreload
