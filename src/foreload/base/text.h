// SPDX-License-Identifier: Apache-2.0
//
// Small work on text, and what is said about names and values that are not known.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

// ASCII letters in lower case; everything else stays.
inline std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// ASCII letters, digits and those of `plain` as they are, every other byte as %XX.
std::string percent_encoded(std::string_view text, std::string_view plain);

// A time that has passed, in the largest unit that fits: "3 days", "1 hour", "12 seconds".
std::string format_age(double seconds);

// The name that differs least from `name`; empty if none is near.
std::string nearest(std::string_view name, const std::vector<std::string>& names);
// "; did you mean epochs?", empty if no name is near.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& names);

// "auto, io_uring or threads".
std::string alternatives(const std::vector<std::string>& choices);

// Fails with `invalid` if `value` is none of the choices: "--io is 'thread': use auto, io_uring or
// threads; did you mean threads?".
Result<void> check_choice(std::string_view what, std::string_view value,
                          const std::vector<std::string>& choices);

}  // namespace foreload
