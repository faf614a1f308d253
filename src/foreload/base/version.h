// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace foreload {

// The version of the library, "0.1.0"; the program and the Python package report the same one.
const char* version();

}  // namespace foreload
