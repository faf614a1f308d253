// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "foreload/decode/steps.h"

namespace foreload {
namespace {

using Json = nlohmann::ordered_json;

std::string joined(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// The keys of one step's object: read one by one, then finish() says what was wrong or unknown.
class Keys {
 public:
  Keys(const Json& json, std::string_view step) : json_(json), step_(step) {}

  void read(const char* key, bool& value) {
    if (const Json* found = find(key)) {
      if (!found->is_boolean()) return flaw(key, "must be true or false");
      value = found->get<bool>();
    }
  }
  void read(const char* key, double& value) {
    if (const Json* found = find(key)) {
      if (!found->is_number()) return flaw(key, "must be a number");
      value = found->get<double>();
    }
  }
  // As many numbers as the array has, or one for all of them.
  template <class Number, size_t kCount>
  void read(const char* key, std::array<Number, kCount>& values) {
    const Json* found = find(key);
    if (found == nullptr) return;
    std::vector<Number> given;
    if (!numbers(*found, given) || (given.size() != kCount && given.size() != 1)) {
      return flaw(key, fmt::format("must be {} numbers{}", kCount, limits_of<Number>()));
    }
    for (size_t i = 0; i < kCount; ++i) values[i] = given.size() == 1 ? given[0] : given[i];
  }
  // Height and width, or one number for both.
  void read(const char* key, ImageSize& size) {
    std::array<uint32_t, 2> height_width{};
    if (json_.contains(key)) {
      read(key, height_width);
    } else {
      flaw(key, "is missing");
    }
    size = {height_width[1], height_width[0]};
  }
  void read(const char* key, std::optional<uint32_t>& value) {
    const Json* found = find(key);
    if (found == nullptr || found->is_null()) return;
    std::vector<uint32_t> given;
    if (!numbers(*found, given) || given.size() != 1)
      return flaw(key, "must be a number of pixels");
    value = given[0];
  }
  template <class Choice>
  void read(const char* key, Choice& value, std::initializer_list<Choice> choices) {
    const Json* found = find(key);
    if (found == nullptr) return;
    std::vector<std::string> names;
    for (const Choice choice : choices) {
      names.emplace_back(name_of(choice));
      if (found->is_string() && found->get<std::string>() == names.back()) {
        value = choice;
        return;
      }
    }
    flaw(key, fmt::format("must be one of {}", joined(names)));
  }

  bool has_one_number(const char* key) const {
    const auto found = json_.find(key);
    return found != json_.end() &&
           (found->is_number() || (found->is_array() && found->size() == 1));
  }

  Result<Step> finish(Step step) {
    for (const auto& [key, value] : json_.items()) {
      if (flaw_.empty() && key != "step" && std::ranges::find(known_, key) == known_.end()) {
        flaw_ = fmt::format("key \"{}\" is not known; it has {}", key, joined(known_));
      }
    }
    if (flaw_.empty()) return step;
    return fail(ErrorKind::invalid, fmt::format("{}: {}", step_, flaw_));
  }

 private:
  const Json* find(const char* key) {
    known_.emplace_back(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  void flaw(const char* key, std::string_view what) {
    if (flaw_.empty()) flaw_ = fmt::format("\"{}\" {}", key, what);
  }
  template <class Number>
  static std::string limits_of() {
    if constexpr (std::is_floating_point_v<Number>) return "";
    return fmt::format(" from 0 to {}", std::numeric_limits<Number>::max());
  }
  template <class Number>
  static bool numbers(const Json& json, std::vector<Number>& out) {
    const auto add = [&out](const Json& number) {
      if constexpr (std::is_floating_point_v<Number>) {
        if (!number.is_number()) return false;
      } else {
        if (!number.is_number_unsigned() ||
            number.get<uint64_t>() > std::numeric_limits<Number>::max()) {
          return false;
        }
      }
      out.push_back(number.get<Number>());
      return true;
    };
    if (!json.is_array()) return add(json);
    return std::ranges::all_of(json, add);
  }

  const Json& json_;
  std::string step_;
  std::vector<std::string> known_;
  std::string flaw_;
};

constexpr auto kTypes = {PixelType::uint8,    PixelType::float32, PixelType::float16,
                         PixelType::bfloat16, PixelType::uint16,  PixelType::int16,
                         PixelType::int32,    PixelType::float64};
constexpr auto kInterpolations = {Interpolation::nearest, Interpolation::bilinear,
                                  Interpolation::bicubic};

// Reads and writes visit the same keys, so that neither can forget one.
Result<Step> read_step(Keys keys, step::Decode step) {
  keys.read("mode", step.mode, {ColorMode::rgb, ColorMode::grey, ColorMode::rgba});
  keys.read("exif_orientation", step.exif_orientation);
  keys.read("fast", step.fast);
  keys.read("dtype", step.type, kTypes);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::RandomResizedCrop step) {
  keys.read("size", step.size);
  keys.read("scale", step.scale);
  keys.read("ratio", step.ratio);
  keys.read("interpolation", step.interpolation, kInterpolations);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::Resize step) {
  const bool shorter_side = keys.has_one_number("size");
  keys.read("size", step.size);
  if (shorter_side) {
    step.shorter = step.size.width;
    step.size = {};
  }
  keys.read("max_size", step.longest);
  keys.read("interpolation", step.interpolation, kInterpolations);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::CenterCrop step) {
  keys.read("size", step.size);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::RandomCrop step) {
  keys.read("size", step.size);
  keys.read("padding", step.padding);
  keys.read("pad_if_needed", step.pad_if_needed);
  keys.read("fill", step.fill);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::RandomHorizontalFlip step) {
  keys.read("p", step.p);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::ColorJitter step) {
  keys.read("brightness", step.brightness);
  keys.read("contrast", step.contrast);
  keys.read("saturation", step.saturation);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::Normalize step) {
  keys.read("mean", step.mean);
  keys.read("std", step.std);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::ToDtype step) {
  keys.read("dtype", step.type, kTypes);
  keys.read("scale", step.scale);
  return keys.finish(step);
}

Result<Step> read_step(Keys keys, step::ToLayout step) {
  keys.read("layout", step.layout, {Layout::chw, Layout::hwc});
  return keys.finish(step);
}

Json size_json(ImageSize size) {
  return Json::array({size.height, size.width});
}

Json step_json(const step::Decode& step) {
  return {{"mode", name_of(step.mode)},
          {"exif_orientation", step.exif_orientation},
          {"fast", step.fast},
          {"dtype", name_of(step.type)}};
}
Json step_json(const step::RandomResizedCrop& step) {
  return {{"size", size_json(step.size)},
          {"scale", step.scale},
          {"ratio", step.ratio},
          {"interpolation", name_of(step.interpolation)}};
}
Json step_json(const step::Resize& step) {
  return {{"size", step.shorter > 0 ? Json(step.shorter) : size_json(step.size)},
          {"max_size", step.longest ? Json(*step.longest) : Json(nullptr)},
          {"interpolation", name_of(step.interpolation)}};
}
Json step_json(const step::CenterCrop& step) {
  return {{"size", size_json(step.size)}};
}
Json step_json(const step::RandomCrop& step) {
  return {{"size", size_json(step.size)},
          {"padding", step.padding},
          {"pad_if_needed", step.pad_if_needed},
          {"fill", step.fill}};
}
Json step_json(const step::RandomHorizontalFlip& step) {
  return {{"p", step.p}};
}
Json step_json(const step::ColorJitter& step) {
  return {{"brightness", step.brightness},
          {"contrast", step.contrast},
          {"saturation", step.saturation}};
}
Json step_json(const step::Normalize& step) {
  return {{"mean", step.mean}, {"std", step.std}};
}
Json step_json(const step::ToDtype& step) {
  return {{"dtype", name_of(step.type)}, {"scale", step.scale}};
}
Json step_json(const step::ToLayout& step) {
  return {{"layout", name_of(step.layout)}};
}

template <size_t kIndex = 0>
Result<Step> read_any(const Json& json, const std::string& name) {
  if constexpr (kIndex < std::variant_size_v<Step>) {
    using Kind = std::variant_alternative_t<kIndex, Step>;
    if (name_of(Step(Kind{})) == name) return read_step(Keys(json, name), Kind{});
    return read_any<kIndex + 1>(json, name);
  } else {
    std::vector<std::string> known;
    [&known]<size_t... kKinds>(std::index_sequence<kKinds...>) {
      (known.emplace_back(name_of(Step(std::variant_alternative_t<kKinds, Step>{}))), ...);
    }(std::make_index_sequence<std::variant_size_v<Step>>());
    return fail(ErrorKind::invalid,
                fmt::format("step '{}' is not known; there are {}", name, joined(known)));
  }
}

}  // namespace

Result<std::vector<Step>> steps_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_array()) {
    return fail(ErrorKind::invalid,
                "a transform must be a JSON list of steps, such as "
                "[{\"step\": \"Resize\", \"size\": 256}]");
  }
  std::vector<Step> steps;
  for (const Json& item : json) {
    const auto name = item.is_object() ? item.find("step") : item.end();
    if (!item.is_object() || name == item.end() || !name->is_string()) {
      return fail(ErrorKind::invalid,
                  fmt::format("step {} has no \"step\" with its name in it", steps.size() + 1));
    }
    FORELOAD_TRY(Step step, read_any(item, name->get<std::string>()));
    steps.push_back(step);
  }
  return steps;
}

std::string to_json(const std::vector<Step>& steps) {
  auto list = Json::array();
  for (const Step& step : steps) {
    Json json{{"step", name_of(step)}};
    json.update(std::visit([](const auto& kind) { return step_json(kind); }, step));
    list.push_back(std::move(json));
  }
  return list.dump();
}

}  // namespace foreload
