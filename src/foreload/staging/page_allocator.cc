// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include "foreload/staging/staging.h"

namespace foreload {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// mmap and munmap round sizes up to whole pages themselves.
class PageAllocator : public SlotAllocator {
 public:
  std::byte* allocate(size_t bytes) override {
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    // Advice only: where there are no huge pages, small ones do.
    if (bytes >= kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory, size_t bytes) override { ::munmap(memory, bytes); }
};

}  // namespace

std::unique_ptr<SlotAllocator> page_allocator() {
  return std::make_unique<PageAllocator>();
}

}  // namespace foreload
