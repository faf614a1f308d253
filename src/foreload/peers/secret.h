// SPDX-License-Identifier: Apache-2.0
//
// The secret of a job: 32 random bytes that all its ranks know and nobody else, written as 64
// hexadecimal digits. It comes from the environment or from a file that only its owner can read,
// never through a rendezvous. Plain functions, any thread.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "foreload/base/result.h"
#include "foreload/peers/transport.h"

namespace foreload {

// Fails with `invalid` if the text is not 64 hexadecimal digits (spaces around are allowed) or all
// zeros. The message does not show the text.
Result<JobSecret> parse_secret(std::string_view text, const std::string& where);

// Fails with `invalid` if the file belongs to another user, others may read or write it, or its
// contents are no secret; with `unreadable` if it cannot be read.
Result<JobSecret> read_secret(const std::filesystem::path& file);

// From FORELOAD_SECRET, or else from the file that FORELOAD_SECRET_FILE names. Fails with `invalid`
// if neither is set.
Result<JobSecret> secret_from_environment();

// The one that this user keeps on this host, for jobs whose ranks are all here: in the file
// foreload-secret of mode 0600, in $XDG_RUNTIME_DIR, else in $XDG_CACHE_HOME/foreload or
// ~/.cache/foreload. Whoever comes first makes it. Fails as read_secret() does, and with `invalid`
// if there is no such folder.
Result<JobSecret> secret_of_user();

// A new one, for whoever starts all ranks of a job.
Result<JobSecret> draw_secret();
std::string secret_text(const JobSecret& secret);

}  // namespace foreload
