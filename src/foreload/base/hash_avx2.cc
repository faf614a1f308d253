// SPDX-License-Identifier: Apache-2.0
#include <xxhash.h>

#include "foreload/base/hash_kernels.h"

namespace foreload::hash_kernels {

const Kernels& avx2() {
  static constexpr Kernels kernels{
      [](const void* data, size_t size) -> uint64_t { return XXH3_64bits(data, size); },
      [](void* state, const void* data, size_t size) {
        XXH3_64bits_update(static_cast<XXH3_state_t*>(state), data, size);
      }};
  return kernels;
}

}  // namespace foreload::hash_kernels
