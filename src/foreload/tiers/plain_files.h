// SPDX-License-Identifier: Apache-2.0
//
// A tier of plain files, for caches on file systems that others read: one file for each copy that
// holds its bytes and nothing else, called AB/CONTENT.FORM.CHECKSUM in hexadecimal digits (AB are
// the first two of CONTENT). A file appears whole, by renaming; nothing is synced, because a file
// that a crash has spoilt is known by the checksum in its name.
//
// Slower than segments (disk.h): a put is a new file, and of a range that is asked for the whole
// copy is read to check it. The budget counts 512 bytes for each file besides its own. Processes
// that write one folder at the same time each have a budget of their own; of what is found at the
// start each takes its part, by member and members.
#pragma once

#include "foreload/tiers/disk.h"

namespace foreload {

// As open_disk(), with settings that mean the same; never null.
Result<std::shared_ptr<Tier>> open_plain_files(DiskSettings settings, DiskSharing* sharing);

}  // namespace foreload
