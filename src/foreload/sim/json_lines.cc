// SPDX-License-Identifier: Apache-2.0
#include "foreload/sim/json_lines.h"

#include <algorithm>
#include <string>

#include <nlohmann/json.hpp>

namespace foreload::sim {
namespace {

size_t line_at(std::string_view text, size_t position) {
  const auto end = text.begin() + static_cast<std::ptrdiff_t>(std::min(position, text.size()));
  return 1 + static_cast<size_t>(std::count(text.begin(), end, '\n'));
}

// Goes through a text once and remembers the value whose path has most in common with the wanted.
class ValueFinder {
 public:
  ValueFinder(std::string_view text, std::string_view wanted) : text_(text), wanted_(wanted) {}

  size_t find() {
    visit("");
    return line_at(text_, found_);
  }

 private:
  char next() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool begins(std::string_view with) const { return text_.substr(at_).starts_with(with); }
  void skip_to(std::string_view end) { at_ = std::min(text_.find(end, at_), text_.size()); }
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (begins("//"))
        skip_to("\n");
      else if (begins("/*"))
        skip_to("*/"), at_ += 2;
      else if (std::string_view(" \t\r\n,:").find(next()) != std::string_view::npos)
        ++at_;
      else
        return;
    }
  }
  std::string text() {
    std::string value;
    for (++at_; at_ < text_.size() && next() != '"'; ++at_) {
      if (next() == '\\') ++at_;
      value += next();
    }
    ++at_;
    return value;
  }
  bool leads_to_wanted(const std::string& path) const {
    return wanted_.starts_with(path) &&
           (path.empty() || wanted_.size() == path.size() || wanted_[path.size()] == '.');
  }

  void visit(const std::string& path) {
    skip_blanks();
    if (leads_to_wanted(path)) found_ = at_;
    const char first = next();
    if (first == '"') {
      text();
    } else if (first == '{' || first == '[') {
      visit_all(path, first == '{');
    } else {
      while (at_ < text_.size() &&
             std::string_view(",]}/ \t\r\n").find(next()) == std::string_view::npos)
        ++at_;
    }
  }
  void visit_all(const std::string& path, bool named) {
    ++at_;
    for (size_t i = 0;; ++i) {
      skip_blanks();
      if (at_ >= text_.size()) return;
      if (next() == '}' || next() == ']') break;
      const std::string key = named ? text() : std::to_string(i);
      visit(path.empty() ? key : path + "." + key);
    }
    ++at_;
  }

  std::string_view text_;
  std::string_view wanted_;
  size_t at_ = 0;
  size_t found_ = 0;
};

// Wants nothing of a text but where it stops being JSON.
class FlawFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  size_t position = 0;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(size_t at, const std::string&, const nlohmann::json::exception&) override {
    position = at;
    return false;
  }
};

}  // namespace

size_t line_of(std::string_view json, std::string_view path) {
  return ValueFinder(json, path).find();
}

size_t line_of_flaw(std::string_view json) {
  FlawFinder finder;
  const bool good = nlohmann::json::sax_parse(json, &finder, nlohmann::json::input_format_t::json,
                                              /*strict=*/true, /*ignore_comments=*/true);
  return good ? 0 : line_at(json, finder.position > 0 ? finder.position - 1 : 0);
}

}  // namespace foreload::sim
