// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver, opened when it is asked for; see libraries.h. It shares contexts, streams and
// memory with the CUDA runtime of a framework in the same process.
//
// Immutable after load(); any thread may use it. A thread makes a device's context current first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "foreload/base/result.h"

namespace foreload::gpu {

using DeviceAddress = unsigned long long;

struct CudaDriver {
  static constexpr int kOk = 0;
  static constexpr int kMajorAttribute = 75;  // of the compute capability
  static constexpr int kMinorAttribute = 76;
  static constexpr unsigned kNoTiming = 2;              // of events
  static constexpr unsigned kNotWithDefaultStream = 1;  // of streams

  static Result<CudaDriver> load();
  // Fails with what the driver says about a status that is not kOk.
  Result<void> check(int status, const char* doing) const;

  int (*init)(unsigned flags) = nullptr;
  int (*error_text)(int status, const char** text) = nullptr;
  int (*get_device)(int* device, int number) = nullptr;
  int (*get_attribute)(int* value, int attribute, int device) = nullptr;
  int (*retain_context)(void** context, int device) = nullptr;
  int (*release_context)(int device) = nullptr;
  int (*use_context)(void* context) = nullptr;
  int (*allocate)(DeviceAddress* memory, size_t bytes) = nullptr;
  int (*free)(DeviceAddress memory) = nullptr;
  int (*copy_to_device)(DeviceAddress to, const void* from, size_t bytes, void* stream) = nullptr;
  int (*allocate_pinned)(void** memory, size_t bytes, unsigned flags) = nullptr;
  int (*free_pinned)(void* memory) = nullptr;
  int (*get_priorities)(int* lowest, int* highest) = nullptr;  // of streams
  int (*create_stream)(void** stream, unsigned flags, int priority) = nullptr;
  int (*destroy_stream)(void* stream) = nullptr;
  int (*wait_for_stream)(void* stream) = nullptr;
  int (*stream_waits)(void* stream, void* event, unsigned flags) = nullptr;
  int (*create_event)(void** event, unsigned flags) = nullptr;
  int (*destroy_event)(void* event) = nullptr;
  int (*record_event)(void* event, void* stream) = nullptr;
  int (*wait_for_event)(void* event) = nullptr;
  int (*load_module)(void** module, const void* code) = nullptr;
  int (*unload_module)(void* module) = nullptr;
  int (*find_kernel)(void** kernel, void* module, const char* name) = nullptr;
  int (*launch)(void* kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream,
                void** arguments, void** extra) = nullptr;
};

}  // namespace foreload::gpu
