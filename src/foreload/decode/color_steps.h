// SPDX-License-Identifier: Apache-2.0
//
// Steps that change the colours of a picture of 8 bits with probability p. All that is to be said
// of one stands in its struct: name and keys of its JSON form, what is wrong with its values, and
// what it does. Another one is another struct, and a place in the list of steps (steps.h).
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>

#include "foreload/decode/color_ops.h"

namespace foreload::step {

struct RandomInvert {
  static constexpr std::string_view kName = "RandomInvert";
  double p = 0.5;

  void visit_keys(auto& keys) { keys.key("p", p); }
  std::string_view flaw() const { return ""; }
  ColorTable op() const { return ColorTable::inverted(); }
};
struct RandomPosterize {
  static constexpr std::string_view kName = "RandomPosterize";
  uint32_t bits = 8;  // that are kept, 1 to 8
  double p = 0.5;

  void visit_keys(auto& keys) {
    keys.key("bits", bits);
    keys.key("p", p);
  }
  std::string_view flaw() const {
    return bits < 1 || bits > 8 ? "bits must be a number from 1 to 8" : "";
  }
  ColorTable op() const { return ColorTable::posterized(bits); }
};
struct RandomSolarize {
  static constexpr std::string_view kName = "RandomSolarize";
  double threshold = 128;  // values from here on are inverted
  double p = 0.5;

  void visit_keys(auto& keys) {
    keys.key("threshold", threshold);
    keys.key("p", p);
  }
  std::string_view flaw() const {
    return std::isfinite(threshold) ? "" : "threshold must be a finite number";
  }
  ColorTable op() const { return ColorTable::solarized(threshold); }
};
struct RandomAdjustSharpness {
  static constexpr std::string_view kName = "RandomAdjustSharpness";
  double factor = 1;
  double p = 0.5;

  void visit_keys(auto& keys) {
    keys.key("sharpness_factor", factor);
    keys.key("p", p);
  }
  std::string_view flaw() const {
    return factor >= 0 && std::isfinite(factor)
               ? ""
               : "sharpness_factor must be a finite number not below 0";
  }
  Sharpen op() const { return {factor}; }
};
struct RandomAutocontrast {
  static constexpr std::string_view kName = "RandomAutocontrast";
  double p = 0.5;

  void visit_keys(auto& keys) { keys.key("p", p); }
  std::string_view flaw() const { return ""; }
  AutoContrast op() const { return {}; }
};
struct RandomEqualize {
  static constexpr std::string_view kName = "RandomEqualize";
  double p = 0.5;

  void visit_keys(auto& keys) { keys.key("p", p); }
  std::string_view flaw() const { return ""; }
  Equalize op() const { return {}; }
};

template <class Step>
concept ColorStep = requires(const Step& step) {
  { step.p } -> std::convertible_to<double>;
  { step.flaw() } -> std::convertible_to<std::string_view>;
  step.op();
};

}  // namespace foreload::step
