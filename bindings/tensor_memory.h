// SPDX-License-Identifier: Apache-2.0
//
// Memory of decoded batches that a framework allocates: each slot is a tensor which Python made,
// and the batch that Python gets is that tensor. So whatever the framework knows about its memory
// (that it is pinned, that a copy to a device still reads it) holds for batches too, and a freed
// batch goes back to the framework's own pool, which knows when it may be used again.
//
// allocate() and release() may be called by any thread; both take the GIL. The table of tensors is
// only touched with the GIL held.
#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>

#include <pybind11/pybind11.h>

#include "foreload/staging/staging.h"

namespace foreload::python {

namespace py = pybind11;

class TensorMemory {
 public:
  // `make(bytes)` returns a tensor of bytes whose data_ptr() is aligned to 64.
  explicit TensorMemory(py::function make) : make_(std::move(make)) {}
  ~TensorMemory();
  TensorMemory(const TensorMemory&) = delete;
  TensorMemory& operator=(const TensorMemory&) = delete;

  // An allocator whose memory lies in tensors of `memory`, which it keeps.
  static std::unique_ptr<SlotAllocator> allocator(std::shared_ptr<TensorMemory> memory);

  // The tensor that begins there; None if there is none. REQUIRES: the GIL is held.
  py::object tensor_at(const std::byte* memory) const;

 private:
  class Allocator;

  std::byte* allocate(size_t bytes);
  void release(std::byte* memory);

  py::function make_;
  std::unordered_map<const std::byte*, py::object> tensors_;
};

}  // namespace foreload::python
