// SPDX-License-Identifier: Apache-2.0
//
// The two functions that spend time on many bytes, once per instruction set; every set gives the
// same result. The file for AVX2 is compiled with that flag and includes nothing but this and
// xxhash, so that no other code of the library gets such instructions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foreload::hash_kernels {

struct Kernels {
  uint64_t (*checksum)(const void* data, size_t size);
  void (*update)(void* state, const void* data, size_t size);  // of an XXH3_state_t
};

const Kernels& avx2();  // REQUIRES: the machine has it; x86-64 only

}  // namespace foreload::hash_kernels
