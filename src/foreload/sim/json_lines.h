// SPDX-License-Identifier: Apache-2.0
//
// Where something is in a JSON text that people wrote, comments included: the JSON library says
// what is wrong, and people look for a line.
#pragma once

#include <cstddef>
#include <string_view>

namespace foreload::sim {

// Lines count from 1.

// Of the value with that path, like cluster.tiers.0.curve, or of the nearest one that it would be
// in. REQUIRES: the text is JSON.
size_t line_of(std::string_view json, std::string_view path);
// In which the text stops being JSON; 0: it is JSON.
size_t line_of_flaw(std::string_view json);

}  // namespace foreload::sim
