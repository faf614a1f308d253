// SPDX-License-Identifier: Apache-2.0
#include "tensor_memory.h"

#include <cstdint>
#include <utility>

#include "endings.h"

namespace foreload::python {

class TensorMemory::Allocator : public SlotAllocator {
 public:
  explicit Allocator(std::shared_ptr<TensorMemory> memory) : memory_(std::move(memory)) {}
  std::byte* allocate(size_t bytes) override { return memory_->allocate(bytes); }
  void release(std::byte* memory, size_t) override { memory_->release(memory); }

 private:
  const std::shared_ptr<TensorMemory> memory_;
};

std::unique_ptr<SlotAllocator> TensorMemory::allocator(std::shared_ptr<TensorMemory> memory) {
  return std::make_unique<Allocator>(std::move(memory));
}

TensorMemory::~TensorMemory() {
  if (Py_IsInitialized() == 0) {  // too late to give anything back
    static_cast<void>(make_.release());
    for (auto& [memory, tensor] : tensors_) static_cast<void>(tensor.release());
    return;
  }
  py::gil_scoped_acquire acquire;
  make_ = py::function();
  tensors_.clear();
}

std::byte* TensorMemory::allocate(size_t bytes) {
  py::gil_scoped_acquire acquire;
  const BorrowedThread borrowed;
  try {
    py::object tensor = make_(bytes);
    auto* const memory = reinterpret_cast<std::byte*>(tensor.attr("data_ptr")().cast<uintptr_t>());
    if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % 64 != 0) return nullptr;
    tensors_[memory] = std::move(tensor);
    return memory;
  } catch (py::error_already_set& error) {
    error.discard_as_unraisable("allocating the memory of a batch");
    return nullptr;  // the loader then says how much memory was wanted
  }
}

void TensorMemory::release(std::byte* memory) {
  if (Py_IsInitialized() == 0) return;
  py::gil_scoped_acquire acquire;
  tensors_.erase(memory);
}

py::object TensorMemory::tensor_at(const std::byte* memory) const {
  const auto found = tensors_.find(memory);
  return found == tensors_.end() ? py::none() : found->second;
}

}  // namespace foreload::python
