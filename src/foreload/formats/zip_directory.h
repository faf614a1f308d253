// SPDX-License-Identifier: Apache-2.0
//
// What is in a zip archive and where. Only members that are stored as they are, because a sample is
// a range of an object; one that is compressed is refused, with the command that packs it anew.
// Archives of more than 4 GiB or 65,535 members (Zip64) are read; those in several pieces and
// encrypted ones are not. Pure but for what it is given to read with; any thread may call it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/stores/object_reader.h"

namespace foreload {

struct ZipMember {
  std::string name;     // a folder's ends in '/'
  uint64_t header = 0;  // where its own begins in the archive
  uint64_t offset = 0;  // of its bytes
  uint64_t length = 0;
};

using ZipRange = ObjectReader::Range;
using ReadZip = std::function<Result<std::vector<std::string>>(const std::vector<ZipRange>&)>;
// The members of an archive of so many bytes, in the order of its directory. Reads the directory,
// and the header of each member. Fails with `invalid` if it is damaged or of a kind that is not
// read, and says which, with the name that is given.
Result<std::vector<ZipMember>> read_zip(const std::string& name, uint64_t size,
                                        const ReadZip& read);

}  // namespace foreload
