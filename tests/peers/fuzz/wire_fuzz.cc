// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer target for parse_message: whatever arrives, it returns; what it accepts is exactly what
// encode() would have written.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "foreload/base/hash.h"
#include "foreload/peers/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreload;
  const auto bytes = std::as_bytes(std::span(data, size));
  // A checksum made right lets the fuzzer past it, to the checks behind.
  for (const bool mend : {false, true}) {
    std::vector<std::byte> header(bytes.begin(), bytes.end());
    if (mend) {
      if (size < 8) continue;
      const uint64_t checksum = checksum64(std::span(header).first(size - 8));
      std::memcpy(header.data() + size - 8, &checksum, 8);
    }
    const auto message = parse_message(header);
    if (message && encode(*message) != header) std::abort();
  }
  return 0;
}
