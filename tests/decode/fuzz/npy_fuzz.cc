// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "foreload/decode/npy.h"

// What is accepted must lie inside the file and end with it.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = std::as_bytes(std::span(data, size));
  const auto array = foreload::parse_npy(file);
  if (!array) return 0;
  if (array->data.data() < file.data()) std::abort();
  if (array->data.data() + array->data.size() != file.data() + file.size()) std::abort();
  return 0;
}
