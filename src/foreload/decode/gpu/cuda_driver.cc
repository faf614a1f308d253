// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/gpu/cuda_driver.h"

#include <fmt/format.h>

#include "foreload/decode/gpu/libraries.h"

namespace foreload::gpu {

Result<CudaDriver> CudaDriver::load() {
  constexpr const char* kWhat = "the CUDA driver";
  FORELOAD_TRY(void* const library, open_library("libcuda.so.1", kWhat));
  CudaDriver api;
  FORELOAD_CHECK(bind_function(library, "cuInit", kWhat, api.init));
  FORELOAD_CHECK(bind_function(library, "cuGetErrorString", kWhat, api.error_text));
  FORELOAD_CHECK(bind_function(library, "cuDeviceGet", kWhat, api.get_device));
  FORELOAD_CHECK(bind_function(library, "cuDeviceGetAttribute", kWhat, api.get_attribute));
  FORELOAD_CHECK(bind_function(library, "cuDevicePrimaryCtxRetain", kWhat, api.retain_context));
  FORELOAD_CHECK(
      bind_function(library, "cuDevicePrimaryCtxRelease_v2", kWhat, api.release_context));
  FORELOAD_CHECK(bind_function(library, "cuCtxSetCurrent", kWhat, api.use_context));
  FORELOAD_CHECK(bind_function(library, "cuMemAlloc_v2", kWhat, api.allocate));
  FORELOAD_CHECK(bind_function(library, "cuMemFree_v2", kWhat, api.free));
  FORELOAD_CHECK(bind_function(library, "cuMemcpyHtoDAsync_v2", kWhat, api.copy_to_device));
  FORELOAD_CHECK(bind_function(library, "cuStreamCreateWithPriority", kWhat, api.create_stream));
  FORELOAD_CHECK(bind_function(library, "cuCtxGetStreamPriorityRange", kWhat, api.get_priorities));
  FORELOAD_CHECK(bind_function(library, "cuMemHostAlloc", kWhat, api.allocate_pinned));
  FORELOAD_CHECK(bind_function(library, "cuMemFreeHost", kWhat, api.free_pinned));
  FORELOAD_CHECK(bind_function(library, "cuStreamDestroy_v2", kWhat, api.destroy_stream));
  FORELOAD_CHECK(bind_function(library, "cuStreamSynchronize", kWhat, api.wait_for_stream));
  FORELOAD_CHECK(bind_function(library, "cuStreamWaitEvent", kWhat, api.stream_waits));
  FORELOAD_CHECK(bind_function(library, "cuEventCreate", kWhat, api.create_event));
  FORELOAD_CHECK(bind_function(library, "cuEventDestroy_v2", kWhat, api.destroy_event));
  FORELOAD_CHECK(bind_function(library, "cuEventRecord", kWhat, api.record_event));
  FORELOAD_CHECK(bind_function(library, "cuEventSynchronize", kWhat, api.wait_for_event));
  FORELOAD_CHECK(bind_function(library, "cuModuleLoadData", kWhat, api.load_module));
  FORELOAD_CHECK(bind_function(library, "cuModuleUnload", kWhat, api.unload_module));
  FORELOAD_CHECK(bind_function(library, "cuModuleGetFunction", kWhat, api.find_kernel));
  FORELOAD_CHECK(bind_function(library, "cuLaunchKernel", kWhat, api.launch));
  FORELOAD_CHECK(api.check(api.init(0), "starting the driver"));
  return api;
}

Result<void> CudaDriver::check(int status, const char* doing) const {
  if (status == kOk) return {};
  const char* text = nullptr;
  error_text(status, &text);
  return fail(ErrorKind::unreadable,
              fmt::format("the GPU failed at {}: {} (CUDA error {}); decode on the CPU", doing,
                          text == nullptr ? "unknown" : text, status));
}

}  // namespace foreload::gpu
