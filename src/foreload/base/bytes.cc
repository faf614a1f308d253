// SPDX-License-Identifier: Apache-2.0
#include "foreload/base/bytes.h"

#include <array>
#include <cctype>

#include <fmt/format.h>

#include "foreload/base/wide.h"

namespace foreload {
namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};

// A letter alone is binary, as in SLURM.
constexpr std::array<Unit, 16> kUnits{{{"B", 1},
                                       {"K", uint64_t{1} << 10},
                                       {"M", uint64_t{1} << 20},
                                       {"G", uint64_t{1} << 30},
                                       {"T", uint64_t{1} << 40},
                                       {"P", uint64_t{1} << 50},
                                       {"KB", 1000},
                                       {"MB", 1000'000},
                                       {"GB", 1000'000'000},
                                       {"TB", 1000'000'000'000},
                                       {"PB", 1000'000'000'000'000},
                                       {"KiB", uint64_t{1} << 10},
                                       {"MiB", uint64_t{1} << 20},
                                       {"GiB", uint64_t{1} << 30},
                                       {"TiB", uint64_t{1} << 40},
                                       {"PiB", uint64_t{1} << 50}}};

bool same_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(a[i])) !=
        std::tolower(static_cast<unsigned char>(b[i])))
      return false;
  }
  return true;
}

}  // namespace

Result<uint64_t> parse_bytes(std::string_view text) {
  auto refuse = [text](std::string_view why) {
    return fail(ErrorKind::invalid,
                fmt::format("cannot read size '{}': {}; write it like 8GiB (or 8G), 8GB, 512MiB "
                            "or 12345B",
                            text, why));
  };
  constexpr uint128_t kLimit = UINT64_MAX;
  // The value is whole + fraction / scale; nine digits of fraction are plenty for a size.
  constexpr int kFractionDigits = 9;
  uint128_t whole = 0;
  uint64_t fraction = 0;
  uint64_t scale = 1;
  size_t i = 0;
  const size_t digits_begin = i;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
    whole = whole * 10 + static_cast<unsigned>(text[i] - '0');
    if (whole > kLimit) return refuse("the number is above 2^64 - 1 bytes");
  }
  if (i == digits_begin) return refuse("it does not start with a digit");
  if (i < text.size() && text[i] == '.') {
    const size_t fraction_begin = ++i;
    for (; i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) {
      if (i - fraction_begin >= kFractionDigits) continue;
      fraction = fraction * 10 + static_cast<unsigned>(text[i] - '0');
      scale *= 10;
    }
    if (i == fraction_begin) return refuse("no digit follows the point");
  }
  while (i < text.size() && text[i] == ' ') ++i;
  const std::string_view unit_name = text.substr(i);
  if (unit_name.empty()) {
    if (whole == 0 && fraction == 0) return 0;
    const std::string_view number = text.substr(0, text.find(' '));
    return fail(ErrorKind::invalid,
                fmt::format("cannot read size '{}': it has no unit; write '{}GiB', or '{}B' if you "
                            "mean bytes",
                            text, number, number));
  }
  for (const Unit& unit : kUnits) {
    if (!same_ignoring_case(unit.name, unit_name)) continue;
    const uint128_t bytes = whole * unit.bytes + uint128_t{fraction} * unit.bytes / scale;
    if (bytes > kLimit) return refuse("the number is above 2^64 - 1 bytes");
    return static_cast<uint64_t>(bytes);
  }
  return refuse(fmt::format("unknown unit '{}'", unit_name));
}

std::string format_bytes(uint64_t bytes) {
  static constexpr std::array<std::string_view, 6> kNames{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would be shown as 1024.0, so it already belongs to the next unit.
  while (value >= 1023.95 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kNames[unit]);
}

std::string format_count(uint64_t count) {
  const std::string digits = fmt::format("{}", count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

}  // namespace foreload
