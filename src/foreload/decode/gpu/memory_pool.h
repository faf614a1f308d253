// SPDX-License-Identifier: Apache-2.0
//
// Device and pinned memory for nvJPEG, kept until the end: CUDA's own calls for giving memory back
// wait for the whole device, training included, and nvJPEG gives back and takes whenever a file is
// larger than those before it.
//
// Any thread may call; the context is current for the one that does.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "foreload/decode/gpu/cuda_driver.h"

namespace foreload::gpu {

class MemoryPool {
 public:
  enum class Kind { device, pinned };

  // `stream`: what is given back may be in use by work that is there.
  MemoryPool(const CudaDriver& cuda, Kind kind, void* stream)
      : cuda_(cuda), kind_(kind), stream_(stream) {}
  // Gives everything back. REQUIRES: nobody uses it any more.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // At least so many bytes; null if there are none.
  void* take(size_t bytes);
  // Of take(). Waits for the stream.
  void give_back(void* memory);
  size_t bytes() const;

  // The same as functions that return 0 for success.
  static int take_from(void* pool, void** memory, size_t bytes, void* stream);
  static int give_back_to(void* pool, void* memory, size_t bytes, void* stream);

 private:
  const CudaDriver& cuda_;
  const Kind kind_;
  void* const stream_;
  mutable std::mutex mutex_;  // guards the rest
  std::map<void*, size_t> sizes_;
  std::multimap<size_t, void*> free_;  // by size
};

}  // namespace foreload::gpu
