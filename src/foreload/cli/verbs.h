// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the program. Each adds its options to the parser and says what to run when it was
// chosen; what it runs returns the exit status or an error that main prints as one line.
#pragma once

#include <functional>

#include <CLI/CLI.hpp>

#include "foreload/base/result.h"

namespace foreload::cli {

using Run = std::function<Result<int>()>;

// Exit statuses beside 0.
inline constexpr int kFailed = 1;    // the machine could not do it
inline constexpr int kBadInput = 2;  // what was asked for, or the data it names, is wrong

Run add_advise(CLI::App& app);
Run add_launch(CLI::App& app);
Run add_make_images(CLI::App& app);
Run add_order(CLI::App& app);
Run add_plan(CLI::App& app);
Run add_probe(CLI::App& app);
Run add_read(CLI::App& app);
Run add_simulate(CLI::App& app);

}  // namespace foreload::cli
