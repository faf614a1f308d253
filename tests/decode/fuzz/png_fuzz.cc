// SPDX-License-Identifier: Apache-2.0
#include "regions.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  foreload::decode_in_two_ways(std::as_bytes(std::span(data, size)), "PNG");
  return 0;
}
