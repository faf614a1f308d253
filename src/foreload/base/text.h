// SPDX-License-Identifier: Apache-2.0
//
// Small work on text.
#pragma once

#include <string>
#include <string_view>

namespace foreload {

// ASCII letters in lower case; everything else stays.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace foreload
