// SPDX-License-Identifier: Apache-2.0
#include "foreload/cli/arguments.h"

#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "foreload/base/bytes.h"

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

}  // namespace foreload::cli
