// SPDX-License-Identifier: Apache-2.0
//
// Writing files so that a reader sees the old one or the new one, never a part. Errors are errno
// values, 0 for none: the caller knows what the file is and says so.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace foreload {

// What the system says about an errno value.
std::string system_message(int error);

// Writes everything, however often that takes.
int write_all(int fd, std::span<const std::byte> bytes);

// Writes to a new file beside `file`, syncs it, renames it, and syncs the folder. Leaves no
// temporary file behind on failure. Several processes may do so for one file at once; the last one
// wins.
int replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes);

}  // namespace foreload
