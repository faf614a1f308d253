// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/npy.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>
#include <string_view>

#include <fmt/format.h>

namespace foreload {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMostDimensions = 64;  // NumPy's own limit

auto flaw(std::string_view what) {
  return fail(ErrorKind::invalid, fmt::format("not a usable .npy array: {}", what));
}

// The header is a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  bool take(char wanted) {
    skip_space();
    if (rest_.empty() || rest_[0] != wanted) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool take(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  std::optional<std::string_view> string() {
    skip_space();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view found = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return found;
  }

  std::optional<uint64_t> number() {
    skip_space();
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // as Python 2 wrote it
    return value;
  }

  std::optional<std::vector<uint64_t>> tuple() {
    if (!take('(')) return std::nullopt;
    std::vector<uint64_t> numbers;
    while (!take(')')) {
      const auto value = number();
      if (!value || numbers.size() == kMostDimensions) return std::nullopt;
      numbers.push_back(*value);
      if (take(',')) continue;
      if (numbers.size() == 1 || !take(')')) return std::nullopt;  // (3) is no tuple
      break;
    }
    return numbers;
  }

  bool at_end() {
    skip_space();
    return rest_.empty();
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) {
      rest_.remove_prefix(1);
    }
  }

  std::string_view rest_;
};

// Bytes of one number; 0 if the type is none.
uint64_t width_of(std::string_view dtype) {
  static constexpr std::array<std::string_view, 15> kNumbers{
      "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "f16"};
  if (dtype.size() < 3 || std::string_view("<>|=").find(dtype[0]) == std::string_view::npos) {
    return 0;
  }
  const std::string_view number = dtype.substr(1);
  if (std::ranges::find(kNumbers, number) == kNumbers.end()) return 0;
  return number.size() == 3 ? 16 : static_cast<uint64_t>(number[1] - '0');
}

Result<NpyArray> parse_header(std::string_view text) {
  NpyArray array;
  bool has_dtype = false, has_order = false, has_shape = false;
  Literal literal(text);
  if (!literal.take('{')) return flaw("its header is no dictionary");
  while (!literal.take('}')) {
    const auto key = literal.string();
    if (!key || !literal.take(':')) return flaw("its header is malformed");
    if (*key == "descr" && !has_dtype) {
      const auto dtype = literal.string();
      if (!dtype) return flaw("its elements have fields; save plain numbers");
      array.dtype = *dtype;
      has_dtype = true;
    } else if (*key == "fortran_order" && !has_order) {
      array.fortran_order = literal.take("True");
      if (!array.fortran_order && !literal.take("False")) return flaw("its header is malformed");
      has_order = true;
    } else if (*key == "shape" && !has_shape) {
      auto shape = literal.tuple();
      if (!shape) return flaw("its shape is malformed");
      array.shape = std::move(*shape);
      has_shape = true;
    } else {
      return flaw(fmt::format("its header has the key '{}' unexpectedly", *key));
    }
    if (literal.take(',')) continue;
    if (!literal.take('}')) return flaw("its header is malformed");
    break;
  }
  if (!literal.at_end()) return flaw("its header is malformed");
  if (!has_dtype || !has_order || !has_shape) {
    return flaw("its header lacks 'descr', 'fortran_order' or 'shape'");
  }
  return array;
}

// Nothing if it is more than any memory holds.
std::optional<uint64_t> bytes_of(const NpyArray& array, uint64_t width) {
  if (std::ranges::find(array.shape, 0u) != array.shape.end()) return 0;
  uint64_t bytes = width;
  for (const uint64_t side : array.shape) {
    if (bytes > std::numeric_limits<uint64_t>::max() / side) return std::nullopt;
    bytes *= side;
  }
  return bytes;
}

}  // namespace

bool is_npy(std::span<const std::byte> file) {
  return std::string_view(reinterpret_cast<const char*>(file.data()), file.size())
      .starts_with(kMagic);
}

Result<NpyArray> parse_npy(std::span<const std::byte> file) {
  if (!is_npy(file)) return flaw("it does not begin as one");
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.size() < 8) return flaw("it is truncated inside its header");
  const auto version = static_cast<uint8_t>(text[6]);
  if (version < 1 || version > 3) return flaw(fmt::format("format version {}", version));
  const size_t digits = version == 1 ? 2 : 4;
  const size_t start = 8 + digits;
  if (text.size() < start) return flaw("it is truncated inside its header");
  size_t length = 0;
  for (size_t i = 0; i < digits; ++i) {
    length |= size_t{static_cast<uint8_t>(text[8 + i])} << (8 * i);
  }
  if (length > text.size() - start) return flaw("it is truncated inside its header");
  FORELOAD_TRY(NpyArray array, parse_header(text.substr(start, length)));
  const uint64_t width = width_of(array.dtype);
  if (width == 0) {
    return flaw(fmt::format("its elements are of type '{}'; save plain numbers", array.dtype));
  }
  array.data = file.subspan(start + length);
  const auto declared = bytes_of(array, width);
  if (!declared || *declared > array.data.size()) {
    return flaw("it is truncated: its data is shorter than its shape says");
  }
  if (*declared < array.data.size()) {
    return flaw(
        fmt::format("{} bytes are left over after its data", array.data.size() - *declared));
  }
  return array;
}

}  // namespace foreload
