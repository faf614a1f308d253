// SPDX-License-Identifier: Apache-2.0
//
// Paths as people write them, and what is wrong with one before anything is done with it. Any
// thread may call these.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "foreload/base/result.h"

namespace foreload {

// "~/x" and "~user/x" with the home folder in front, as a shell and Python's expanduser have it;
// everything else, and a user that nobody knows, as it is.
std::filesystem::path expand_home(const std::filesystem::path& path);

// Of a path that is not there: "; did you mean /data/train?", if that is there and each of its
// names is near the one that was given. Otherwise empty.
std::string did_you_mean(const std::filesystem::path& path);

// Whether a file can be written there later: its folder exists and may be written to, and the file,
// if it is there, is one that may be replaced. `what` is the option. Fails with `invalid`.
Result<void> check_output_file(std::string_view what, const std::filesystem::path& file);

// Whether a folder is there or can be made in one that is. Fails with `invalid`.
Result<void> check_new_folder(std::string_view what, const std::filesystem::path& folder);

}  // namespace foreload
