// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/gpu/memory_pool.h"

#include <bit>

namespace foreload::gpu {

MemoryPool::~MemoryPool() {
  for (const auto& [memory, bytes] : sizes_) {
    if (kind_ == Kind::device)
      cuda_.free(reinterpret_cast<DeviceAddress>(memory));
    else
      cuda_.free_pinned(memory);
  }
}

void* MemoryPool::take(size_t bytes) {
  constexpr size_t kSmallest = 4096;
  const size_t wanted = std::bit_ceil(bytes < kSmallest ? kSmallest : bytes);
  const std::lock_guard lock(mutex_);
  if (const auto found = free_.find(wanted); found != free_.end()) {
    void* const memory = found->second;
    free_.erase(found);
    return memory;
  }
  void* memory = nullptr;
  if (kind_ == Kind::device) {
    DeviceAddress address = 0;
    if (cuda_.allocate(&address, wanted) != CudaDriver::kOk) return nullptr;
    memory = reinterpret_cast<void*>(address);
  } else if (cuda_.allocate_pinned(&memory, wanted, 0) != CudaDriver::kOk) {
    return nullptr;
  }
  sizes_[memory] = wanted;
  return memory;
}

void MemoryPool::give_back(void* memory) {
  cuda_.wait_for_stream(stream_);
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(memory);
  if (found != sizes_.end()) free_.emplace(found->second, memory);
}

int MemoryPool::take_from(void* pool, void** memory, size_t bytes, void*) {
  *memory = static_cast<MemoryPool*>(pool)->take(bytes);
  return *memory == nullptr ? 1 : 0;
}

int MemoryPool::give_back_to(void* pool, void* memory, size_t, void*) {
  static_cast<MemoryPool*>(pool)->give_back(memory);
  return 0;
}

size_t MemoryPool::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t sum = 0;
  for (const auto& [memory, bytes] : sizes_) sum += bytes;
  return sum;
}

}  // namespace foreload::gpu
