// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/gpu/libraries.h"

#include <dlfcn.h>

#include <array>

#include <fmt/format.h>

#include "foreload/base/own_thread.h"

namespace foreload::gpu {

Result<void*> open_library(const std::string& path, const char* what) {
  const SignalsBlocked in_threads_it_starts;
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot load {} ({}): {}. Install it, or decode on the CPU", what, path,
                            ::dlerror()));
  }
  return library;
}

Result<void*> find_function(void* library, const char* name, const char* what) {
  void* const address = ::dlsym(library, name);
  if (address == nullptr) {
    return fail(ErrorKind::unreadable,
                fmt::format("cannot use {}: it has no function {}. Install a newer one, or decode "
                            "on the CPU",
                            what, name));
  }
  return address;
}

Result<NvJpeg> NvJpeg::load(const std::string& path) {
  constexpr const char* kWhat = "nvJPEG";
  FORELOAD_TRY(void* const library, open_library(path, kWhat));
  NvJpeg api;
  FORELOAD_CHECK(bind_function(library, "nvjpegCreateExV2", kWhat, api.create));
  FORELOAD_CHECK(bind_function(library, "nvjpegDestroy", kWhat, api.destroy));
  FORELOAD_CHECK(bind_function(library, "nvjpegJpegStateCreate", kWhat, api.create_state));
  FORELOAD_CHECK(bind_function(library, "nvjpegJpegStateDestroy", kWhat, api.destroy_state));
  FORELOAD_CHECK(bind_function(library, "nvjpegDecodeBatchedInitialize", kWhat, api.begin_batches));
  FORELOAD_CHECK(bind_function(library, "nvjpegDecodeBatched", kWhat, api.decode_batch));
  return api;
}

Result<Nvrtc> Nvrtc::load(const std::string& path) {
  constexpr const char* kWhat = "NVRTC";
  FORELOAD_TRY(void* const library, open_library(path, kWhat));
  Nvrtc api;
  FORELOAD_CHECK(bind_function(library, "nvrtcCreateProgram", kWhat, api.create));
  FORELOAD_CHECK(bind_function(library, "nvrtcCompileProgram", kWhat, api.compile_program));
  FORELOAD_CHECK(bind_function(library, "nvrtcGetProgramLogSize", kWhat, api.log_size));
  FORELOAD_CHECK(bind_function(library, "nvrtcGetProgramLog", kWhat, api.log));
  FORELOAD_CHECK(bind_function(library, "nvrtcGetCUBINSize", kWhat, api.code_size));
  FORELOAD_CHECK(bind_function(library, "nvrtcGetCUBIN", kWhat, api.code));
  FORELOAD_CHECK(bind_function(library, "nvrtcDestroyProgram", kWhat, api.destroy));
  return api;
}

Result<std::string> Nvrtc::compile(const char* source, const std::string& architecture) const {
  void* program = nullptr;
  if (create(&program, source, "foreload.cu", 0, nullptr, nullptr) != 0)
    return fail(ErrorKind::invalid,
                "NVRTC cannot make a program: install a newer one, or decode on the CPU");
  const std::string target = "--gpu-architecture=" + architecture;
  // Weights are Pillow's to the last bit: no multiply-adds that the source does not spell out.
  const std::array<const char*, 2> options{target.c_str(), "--fmad=false"};
  const int status = compile_program(program, static_cast<int>(options.size()), options.data());
  size_t bytes = 0;
  std::string made;
  if (status == 0 && code_size(program, &bytes) == 0) {
    made.resize(bytes);
    if (code(program, made.data()) != 0) made.clear();
  }
  std::string said;
  if (made.empty() && log_size(program, &bytes) == 0 && bytes > 0) {
    said.resize(bytes);
    log(program, said.data());
  }
  destroy(&program);
  if (made.empty()) {
    return fail(
        ErrorKind::invalid,
        fmt::format("NVRTC cannot compile for {}, so install a newer one, or decode on the CPU: {}",
                    architecture, said.c_str()));
  }
  return made;
}

}  // namespace foreload::gpu
