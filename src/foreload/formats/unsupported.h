// SPDX-License-Identifier: Apache-2.0
//
// Files that foreload does not read, known by their first bytes or their names, and what works
// instead. One table for all of it, so that "No such file or directory" is said only of paths
// that are wrong. Any thread may call these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

namespace foreload {

// Why a file is no data set, as a whole message; empty if nothing is known about it.
std::string why_not_dataset(const std::filesystem::path& path);

// How many files have an ending: ".tar.gz", ".jpg", empty for none; in lower case.
using Endings = std::map<std::string, uint64_t>;
std::string ending_of(std::string_view name);

// The same for a folder without a single sample, from the endings of all files in it: archives that
// are not read, or no files at all. Empty where other extensions might be meant.
std::string why_not_dataset(const std::filesystem::path& folder, const Endings& endings);
// "12 of .txt, 3 of .json and 2 others", the most frequent first.
std::string most_frequent(const Endings& endings);

}  // namespace foreload
