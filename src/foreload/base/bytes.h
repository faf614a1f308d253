// SPDX-License-Identifier: Apache-2.0
//
// Sizes as people write and read them: "2GiB", "2GB", "2G", "512MiB", "100KiB", "12345B", "1.5TB".
// Binary units are powers of 1024, decimal ones powers of 1000, and a letter alone is binary, as in
// SLURM. A number without a unit is refused because nobody can say what was meant (zero alone needs
// none).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "foreload/base/result.h"

namespace foreload {

// Fails with ErrorKind::invalid for unknown units, signs, junk and values above 2^64 - 1. A
// fraction of a byte is cut off.
Result<uint64_t> parse_bytes(std::string_view text);

// The shortest exact-looking form in binary units, for people: "134.4 GiB", "512 B".
std::string format_bytes(uint64_t bytes);

// A whole number with thousands separated: "1,281,167".
std::string format_count(uint64_t count);

}  // namespace foreload
