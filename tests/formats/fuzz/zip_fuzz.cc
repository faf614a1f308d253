// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "foreload/formats/zip_directory.h"

// Nothing outside is read, and members lie inside.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace foreload;
  const std::string file(reinterpret_cast<const char*>(data), size);
  const auto read =
      [&file](const std::vector<ZipRange>& ranges) -> Result<std::vector<std::string>> {
    std::vector<std::string> bytes;
    for (const ZipRange& range : ranges) {
      if (range.length > file.size() || range.offset > file.size() - range.length) std::abort();
      bytes.push_back(file.substr(range.offset, range.length));
    }
    return bytes;
  };
  const auto members = read_zip("fuzz", size, read);
  if (!members) return 0;
  for (const ZipMember& member : *members)
    if (member.length > size || member.offset > size - member.length) std::abort();
  return 0;
}
