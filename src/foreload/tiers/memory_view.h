// SPDX-License-Identifier: Apache-2.0
//
// The memory tier of another rank on this host, read in place. The owner need not do anything, nor
// run at all; it may drop and rewrite samples at any time, and whoever reads just then gets a miss,
// never other bytes. What a view holds mapped stays there for it even when the owner has ended.
//
// Any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "foreload/base/hash.h"
#include "foreload/base/result.h"
#include "foreload/tiers/memory.h"
#include "foreload/tiers/memory_layout.h"

namespace foreload {

class MemoryView {
 public:
  // Maps what MemoryTier::memory() of another process is; the descriptor may be closed afterwards.
  // Fails with `invalid` if it is not the memory of a tier under this plan, `unreadable` if the
  // system refuses. REQUIRES: the file's size is sealed.
  static Result<std::shared_ptr<const MemoryView>> map(int memory, uint64_t samples,
                                                       const Digest& plan);
  ~MemoryView();
  MemoryView(const MemoryView&) = delete;
  MemoryView& operator=(const MemoryView&) = delete;

  // Copies bytes out and checks them. REQUIRES: into.size() is the sample's size (a miss
  // otherwise).
  Copied get(uint64_t sample, std::span<std::byte> into) const;

 private:
  MemoryView() = default;

  const std::byte* memory_ = nullptr;
  uint64_t bytes_ = 0;  // mapped
  uint64_t samples_ = 0;
  uint64_t entry_count_ = 0;
  uint64_t arena_bytes_ = 0;
  const memory_layout::Place* places_ = nullptr;
  const memory_layout::Entry* entries_ = nullptr;
  const std::byte* arena_ = nullptr;
};

}  // namespace foreload
