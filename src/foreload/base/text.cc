// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/text.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include <fmt/format.h>

namespace foreload {
namespace {

// Letters to change, add or leave out to make one word of another.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string percent_encoded(std::string_view text, std::string_view plain) {
  std::string encoded;
  for (const char c : text) {
    const bool as_it_is = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') || plain.find(c) != plain.npos;
    encoded += as_it_is ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string format_age(double seconds) {
  constexpr std::array<std::pair<double, const char*>, 3> kUnits{
      {{86'400, "day"}, {3'600, "hour"}, {60, "minute"}}};
  const auto said = [](double count, const char* unit) {
    const auto whole = static_cast<uint64_t>(count);
    return fmt::format("{} {}{}", whole, unit, whole == 1 ? "" : "s");
  };
  for (const auto& [length, unit] : kUnits) {
    if (seconds >= length) return said(seconds / length, unit);
  }
  return said(std::max(seconds, 0.0), "second");
}

std::string nearest(std::string_view name, const std::vector<std::string>& names) {
  // How near it counts, and of those that count the same the letters that differ.
  // The dashes of an option say nothing.
  const size_t own = name.size() - std::min(name.find_first_not_of('-'), name.size());
  std::pair<size_t, size_t> least{std::max<size_t>(3, own / 2 + 1), 0};
  std::string found;
  for (const std::string& known : names) {
    // One that is a part of the other is near however long the rest is.
    const bool part = name.size() >= 3 && known.size() >= 3 &&
                      (known.find(name) != known.npos || name.find(known) != name.npos);
    const size_t letters = distance(name, known);
    const std::pair<size_t, size_t> apart{part ? 1 : letters, letters};
    if (apart >= least) continue;
    least = apart;
    found = known;
  }
  return found;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& names) {
  const std::string near = nearest(name, names);
  return near.empty() ? "" : fmt::format("; did you mean {}?", near);
}

std::string alternatives(const std::vector<std::string>& choices) {
  std::string all;
  for (size_t i = 0; i < choices.size(); ++i)
    all += (i == 0 ? "" : i + 1 == choices.size() ? " or " : ", ") + choices[i];
  return all;
}

Result<void> check_choice(std::string_view what, std::string_view value,
                          const std::vector<std::string>& choices) {
  if (std::find(choices.begin(), choices.end(), value) != choices.end()) return {};
  return fail(ErrorKind::invalid, fmt::format("{} is '{}': use {}{}", what, value,
                                              alternatives(choices), did_you_mean(value, choices)));
}

}  // namespace foreload
