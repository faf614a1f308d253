// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace foreload {

// Far more than anything here takes, so that a slow machine does not fail a test.
inline constexpr std::chrono::seconds kPatience{40};

}  // namespace foreload
