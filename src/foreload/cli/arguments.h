// SPDX-License-Identifier: Apache-2.0
//
// Values of options, read so that a bad one is answered with one line that names the option. The
// parser library keeps them as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

#include "foreload/base/result.h"

namespace foreload::cli {

// A whole number in [least, most].
Result<uint64_t> parse_count(std::string_view option, std::string_view text, uint64_t least = 0,
                             uint64_t most = UINT64_MAX);
// A number of ranks.
Result<uint32_t> parse_ranks(std::string_view text);
// A size with its unit.
Result<uint64_t> parse_size(std::string_view option, std::string_view text);
// A number above 0.
Result<double> parse_rate(std::string_view option, std::string_view text);

// For an option that is a path, or begins with one: ~ and ~user become home folders, also where the
// shell leaves them alone, as in --trace=~/trace.json.
void expands_home(CLI::Option* option);

// What the parser found wrong, as one line; an option of `verb` that is nearly right is suggested.
std::string parse_complaint(const CLI::App& verb, const CLI::ParseError& error);

}  // namespace foreload::cli
