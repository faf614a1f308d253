// SPDX-License-Identifier: Apache-2.0
#include "foreload/cli/arguments.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "foreload/base/bytes.h"
#include "foreload/base/paths.h"
#include "foreload/base/text.h"

namespace foreload::cli {

Result<uint64_t> parse_count(std::string_view option, std::string_view text, uint64_t least,
                             uint64_t most) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  return fail(ErrorKind::invalid, fmt::format("{} is '{}': give a whole number from {} to {}",
                                              option, text, least, most));
}

Result<uint32_t> parse_ranks(std::string_view text) {
  FORELOAD_TRY(const uint64_t ranks, parse_count("--ranks", text, 1, UINT32_MAX));
  return static_cast<uint32_t>(ranks);
}

Result<uint64_t> parse_size(std::string_view option, std::string_view text) {
  auto bytes = parse_bytes(text);
  if (!bytes) return fail(bytes.error().kind, fmt::format("{}: {}", option, bytes.error().message));
  return bytes;
}

Result<double> parse_rate(std::string_view option, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && std::isfinite(value) && value > 0)
    return value;
  return fail(ErrorKind::invalid, fmt::format("{} is '{}': give a number above 0", option, text));
}

void expands_home(CLI::Option* option) {
  option->transform([](const std::string& text) { return expand_home(text).native(); }, "");
}

std::string parse_complaint(const CLI::App& verb, const CLI::ParseError& error) {
  for (const std::string& text : verb.remaining()) {
    const std::string given = text.substr(0, text.find('='));
    if (!given.starts_with('-')) continue;
    std::vector<std::string> known;
    for (const CLI::Option* option : verb.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    return fmt::format("unknown option {}{} (see foreload {} --help)", given,
                       did_you_mean(given, known), verb.get_name());
  }
  // The parser's messages may span lines; only the first one says what is wrong.
  const std::string text = error.what();
  return fmt::format("{} (see foreload {} --help)", text.substr(0, text.find('\n')),
                     verb.get_name());
}

}  // namespace foreload::cli
