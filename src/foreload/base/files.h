// SPDX-License-Identifier: Apache-2.0
//
// Whole files: reading them, and writing them so that a reader sees the old one or the new one,
// never a part. Errors are errno values, 0 for none: the caller knows what the file is and says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace foreload {

// What the system says about an errno value.
std::string system_message(int error);

// Reads up to the end of the file, however often that takes; the bytes read, or -1 and errno.
int64_t read_at(int fd, uint64_t offset, std::span<std::byte> into);

// Appends what is in a file, which may be a pipe, to the text; of a long one the first bytes.
int read_file(const std::filesystem::path& file, std::string& text, size_t most = SIZE_MAX);

// Writes everything, however often that takes.
int write_all(int fd, std::span<const std::byte> bytes);

// Writes to a new file beside `file`, syncs it, renames it, and syncs the folder. Leaves no
// temporary file behind on failure. Several processes may do so for one file at once; the last one
// wins.
int replace_file(const std::filesystem::path& file, std::span<const std::byte> bytes);

}  // namespace foreload
