// SPDX-License-Identifier: Apache-2.0
//
// Libraries of the GPU's vendor, opened when they are asked for: foreload is built without their
// headers and runs without them. Each declares the few functions that are used here, with the types
// of the vendor's documentation written out. Pointers stay good for as long as the process lives:
// libraries are never closed.
//
// Immutable after load(); any thread may use them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "foreload/base/result.h"

namespace foreload::gpu {

// nvJPEG: JPEG files to pixels in device memory.
struct NvJpeg {
  static constexpr int kOk = 0;
  static constexpr int kBackendDefault = 0;
  static constexpr int kBackendHardware = 3;
  static constexpr unsigned kSmoothUpsampling = 32;  // of colour, as libjpeg does
  static constexpr int kInterleavedRgb = 5;

  struct Image {
    unsigned char* channel[4];
    size_t pitch[4];
  };

  // Where it takes memory from: functions that return 0 for success.
  struct Allocator {
    int (*take)(void* pool, void** memory, size_t bytes, void* stream);
    int (*give_back)(void* pool, void* memory, size_t bytes, void* stream);
    void* pool;
  };

  // `path`: the library's file; its name alone is looked for where the system looks.
  static Result<NvJpeg> load(const std::string& path);

  int (*create)(int backend, Allocator* device, Allocator* pinned, unsigned flags,
                void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*create_state)(void* handle, void** state) = nullptr;
  int (*destroy_state)(void* state) = nullptr;
  int (*begin_batches)(void* handle, void* state, int images, int cpu_threads,
                       int output_format) = nullptr;
  int (*decode_batch)(void* handle, void* state, const unsigned char* const* files,
                      const size_t* sizes, Image* into, void* stream) = nullptr;
};

// NVRTC: CUDA C++ to machine code, at run time.
struct Nvrtc {
  static Result<Nvrtc> load(const std::string& path);

  // Machine code of the program for an architecture ("sm_90").
  Result<std::string> compile(const char* source, const std::string& architecture) const;

  int (*create)(void** program, const char* source, const char* name, int headers,
                const char* const* header_texts, const char* const* header_names) = nullptr;
  int (*compile_program)(void* program, int options, const char* const* option_texts) = nullptr;
  int (*log_size)(void* program, size_t* bytes) = nullptr;
  int (*log)(void* program, char* text) = nullptr;
  int (*code_size)(void* program, size_t* bytes) = nullptr;
  int (*code)(void* program, char* code) = nullptr;
  int (*destroy)(void** program) = nullptr;
};

// The handle of a library, opened by path or name.
Result<void*> open_library(const std::string& path, const char* what);
// The address of a function in it.
Result<void*> find_function(void* library, const char* name, const char* what);

// Sets a pointer to the function of that name.
template <class Function>
Result<void> bind_function(void* library, const char* name, const char* what, Function*& pointer) {
  FORELOAD_TRY(void* const address, find_function(library, name, what));
  pointer = reinterpret_cast<Function*>(address);
  return {};
}

}  // namespace foreload::gpu
