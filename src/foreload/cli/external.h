// SPDX-License-Identifier: Apache-2.0
//
// Verbs that are programs of their own, `foreload plot` is `foreload-plot`: those that draw are
// Python, so that the core needs none. Looked for beside this program, then on the PATH.
#pragma once

#include <string>
#include <vector>

#include "foreload/base/result.h"

namespace foreload::cli {

std::vector<std::string> external_verbs();
bool is_external_verb(const std::string& verb);

// Runs the verb with `arguments` and `input` on its standard input, and returns its exit status.
// With `input` null this process becomes the program. Fails with `invalid` if the program is not
// there.
Result<int> run_external(const std::string& verb, const std::vector<std::string>& arguments,
                         const std::string* input = nullptr);

}  // namespace foreload::cli
