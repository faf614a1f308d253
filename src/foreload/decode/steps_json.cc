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

Result<Steps> read_steps(const Json& json);
Json steps_json(const Steps& steps);

std::string joined(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

constexpr auto kModes = {ColorMode::rgb, ColorMode::grey, ColorMode::rgba};
constexpr auto kLayouts = {Layout::chw, Layout::hwc};
constexpr auto kTypes = {PixelType::uint8,    PixelType::float32, PixelType::float16,
                         PixelType::bfloat16, PixelType::uint16,  PixelType::int16,
                         PixelType::int32,    PixelType::float64};
constexpr auto kInterpolations = {Interpolation::nearest, Interpolation::bilinear,
                                  Interpolation::bicubic};
constexpr auto kRules = {ResizeRule::pillow, ResizeRule::torch};
constexpr auto kPaddings = {PaddingMode::constant, PaddingMode::edge, PaddingMode::reflect,
                            PaddingMode::symmetric};
constexpr auto kAugmentations = {
    AugmentKind::identity,      AugmentKind::shear_x,     AugmentKind::shear_y,
    AugmentKind::translate_x,   AugmentKind::translate_y, AugmentKind::rotate,
    AugmentKind::brightness,    AugmentKind::color,       AugmentKind::contrast,
    AugmentKind::sharpness,     AugmentKind::posterize,   AugmentKind::solarize,
    AugmentKind::auto_contrast, AugmentKind::equalize,    AugmentKind::invert};

// The keys of one object. KeyReader reads them one by one, then flaw() says what was wrong or
// unknown; KeyWriter writes them all. Both are given to the same functions below, so that neither
// can forget a key.
class KeyReader {
 public:
  explicit KeyReader(const Json& json) : json_(json) {}

  void key(const char* key, bool& value) {
    if (const Json* found = find(key)) {
      if (!found->is_boolean()) return flaw(key, "must be true or false");
      value = found->get<bool>();
    }
  }
  void key(const char* key, double& value) {
    if (const Json* found = find(key)) {
      if (!found->is_number()) return flaw(key, "must be a number");
      value = found->get<double>();
    }
  }
  void key(const char* key, uint32_t& value) {
    std::optional<uint32_t> given;
    this->key(key, given);
    if (given) value = *given;
  }
  // As many numbers as the array has, or one for all of them.
  template <class Number, size_t kCount>
  void key(const char* key, std::array<Number, kCount>& values) {
    const Json* found = find(key);
    if (found == nullptr) return;
    std::vector<Number> given;
    if (!numbers(*found, given) || (given.size() != kCount && given.size() != 1)) {
      return flaw(key, fmt::format("must be {} numbers{}", kCount, limits_of<Number>()));
    }
    for (size_t i = 0; i < kCount; ++i) values[i] = given.size() == 1 ? given[0] : given[i];
  }
  template <size_t kCount>
  void key(const char* key, std::optional<std::array<double, kCount>>& values) {
    const auto found = json_.find(key);
    std::array<double, kCount> given{};
    const bool there = found != json_.end() && !found->is_null();
    if (there) {
      this->key(key, given);
      values = given;
    } else {
      known_.emplace_back(key);
    }
  }
  void key(const char* key, std::vector<double>& values) {
    const Json* found = find(key);
    if (found != nullptr && !numbers(*found, values)) flaw(key, "must be numbers");
  }
  void key(const char* key, std::optional<uint32_t>& value) {
    const Json* found = find(key);
    if (found == nullptr || found->is_null()) return;
    std::vector<uint32_t> given;
    if (!numbers(*found, given) || given.size() != 1)
      return flaw(key, "must be a number of pixels");
    value = given[0];
  }
  // Height and width, or one number for both.
  void size(const char* key, ImageSize& size) {
    std::array<uint32_t, 2> height_width{};
    if (json_.contains(key)) {
      this->key(key, height_width);
    } else {
      flaw(key, "is missing");
    }
    size = {height_width[1], height_width[0]};
  }
  // Or one number for the shorter side.
  void size(const char* key, ImageSize& size, uint32_t& shorter) {
    const auto found = json_.find(key);
    const bool one =
        found != json_.end() && (found->is_number() || (found->is_array() && found->size() == 1));
    this->size(key, size);
    if (one) {
      shorter = size.width;
      size = {};
    }
  }
  template <class Choice>
  void choice(const char* key, Choice& value, std::initializer_list<Choice> choices) {
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
  void steps(const char* key, Steps& steps) {
    if (const Json* found = list(key)) read_into(*found, steps);
  }
  void steps(const char* key, std::vector<Steps>& chains) {
    if (const Json* found = list(key)) {
      for (const Json& item : *found) read_into(item, chains.emplace_back());
    }
  }
  template <class Object>
  void objects(const char* key, std::vector<std::vector<Object>>& lists) {
    const Json* found = list(key);
    if (found == nullptr) return;
    for (const Json& items : *found) {
      if (!items.is_array()) return flaw(key, "must be a list of lists");
      auto& objects = lists.emplace_back();
      for (const Json& item : items) {
        if (!item.is_object()) return flaw(key, "must be lists of objects");
        KeyReader reader(item);
        visit_keys(objects.emplace_back(), reader);
        if (const std::string inner = reader.flaw(); flaw_.empty()) flaw_ = inner;
      }
    }
  }

  std::string flaw() {
    for (const auto& [key, value] : json_.items()) {
      if (flaw_.empty() && key != "step" && std::ranges::find(known_, key) == known_.end()) {
        flaw_ = fmt::format("key \"{}\" is not known; it has {}", key, joined(known_));
      }
    }
    return flaw_;
  }

 private:
  const Json* find(const char* key) {
    known_.emplace_back(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json* list(const char* key) {
    const Json* found = find(key);
    if (found != nullptr && found->is_array()) return found;
    flaw(key, found == nullptr ? "is missing" : "must be a list");
    return nullptr;
  }
  void read_into(const Json& json, Steps& steps) {
    auto read = read_steps(json);
    if (read) {
      steps = std::move(*read);
    } else if (flaw_.empty()) {
      flaw_ = read.error().message;
    }
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
  std::vector<std::string> known_;
  std::string flaw_;
};

class KeyWriter {
 public:
  template <class Value>
  void key(const char* key, const Value& value) {
    json_[key] = value;
  }
  template <class Value>
  void key(const char* key, const std::optional<Value>& value) {
    json_[key] = value ? Json(*value) : Json(nullptr);
  }
  void size(const char* key, const ImageSize& size) {
    json_[key] = Json::array({size.height, size.width});
  }
  void size(const char* key, const ImageSize& size, const uint32_t& shorter) {
    if (shorter > 0) {
      json_[key] = shorter;
    } else {
      this->size(key, size);
    }
  }
  template <class Choice>
  void choice(const char* key, const Choice& value, std::initializer_list<Choice>) {
    json_[key] = name_of(value);
  }
  void steps(const char* key, const Steps& steps) { json_[key] = steps_json(steps); }
  void steps(const char* key, const std::vector<Steps>& chains) {
    json_[key] = Json::array();
    for (const Steps& chain : chains) json_[key].push_back(steps_json(chain));
  }
  template <class Object>
  void objects(const char* key, const std::vector<std::vector<Object>>& lists) {
    json_[key] = Json::array();
    for (const auto& objects : lists) {
      Json items = Json::array();
      for (Object object : objects) {
        KeyWriter writer;
        visit_keys(object, writer);
        items.push_back(writer.json());
      }
      json_[key].push_back(std::move(items));
    }
  }

  const Json& json() const { return json_; }

 private:
  Json json_ = Json::object();
};

void visit_keys(step::Decode& step, auto& keys) {
  keys.choice("mode", step.mode, kModes);
  keys.key("exif_orientation", step.exif_orientation);
  keys.key("fast", step.fast);
  keys.choice("dtype", step.type, kTypes);
}
void visit_keys(step::RandomResizedCrop& step, auto& keys) {
  keys.size("size", step.size);
  keys.key("scale", step.scale);
  keys.key("ratio", step.ratio);
  keys.choice("interpolation", step.interpolation, kInterpolations);
  keys.choice("rule", step.rule, kRules);
}
void visit_keys(step::Resize& step, auto& keys) {
  keys.size("size", step.size, step.shorter);
  keys.key("max_size", step.longest);
  keys.choice("interpolation", step.interpolation, kInterpolations);
  keys.choice("rule", step.rule, kRules);
}
void visit_keys(step::CenterCrop& step, auto& keys) {
  keys.size("size", step.size);
}
void visit_keys(step::RandomCrop& step, auto& keys) {
  keys.size("size", step.size);
  keys.key("padding", step.padding);
  keys.key("pad_if_needed", step.pad_if_needed);
  keys.key("fill", step.fill);
  keys.choice("padding_mode", step.mode, kPaddings);
}
void visit_keys(step::Pad& step, auto& keys) {
  keys.key("padding", step.padding);
  keys.key("fill", step.fill);
  keys.choice("padding_mode", step.mode, kPaddings);
}
void visit_keys(step::FiveCrop& step, auto& keys) {
  keys.size("size", step.size);
  keys.key("ten", step.ten);
  keys.key("vertical_flip", step.vertical_flip);
}
void visit_keys(step::RandomHorizontalFlip& step, auto& keys) {
  keys.key("p", step.p);
}
void visit_keys(step::RandomVerticalFlip& step, auto& keys) {
  keys.key("p", step.p);
}
void visit_keys(step::RandomRotation& step, auto& keys) {
  keys.key("degrees", step.degrees);
  keys.choice("interpolation", step.interpolation, kInterpolations);
  keys.key("expand", step.expand);
  keys.key("center", step.center);
  keys.key("fill", step.fill);
}
void visit_keys(step::RandomAffine& step, auto& keys) {
  keys.key("degrees", step.degrees);
  keys.key("translate", step.translate);
  keys.key("scale", step.scale);
  keys.key("shear", step.shear);
  keys.choice("interpolation", step.interpolation, kInterpolations);
  keys.key("fill", step.fill);
  keys.key("center", step.center);
  keys.key("first_generation", step.first_generation);
}
void visit_keys(step::RandomPerspective& step, auto& keys) {
  keys.key("distortion_scale", step.distortion_scale);
  keys.key("p", step.p);
  keys.choice("interpolation", step.interpolation, kInterpolations);
  keys.key("fill", step.fill);
}
void visit_keys(step::ColorJitter& step, auto& keys) {
  keys.key("brightness", step.brightness);
  keys.key("contrast", step.contrast);
  keys.key("saturation", step.saturation);
  keys.key("hue", step.hue);
}
void visit_keys(step::Grayscale& step, auto& keys) {
  keys.key("num_output_channels", step.channels);
}
void visit_keys(step::RandomGrayscale& step, auto& keys) {
  keys.key("p", step.p);
}
void visit_keys(step::ColorStep auto& step, auto& keys) {
  step.visit_keys(keys);
}
void visit_keys(step::GaussianBlur& step, auto& keys) {
  keys.key("kernel_size", step.kernel);
  keys.key("sigma", step.sigma);
}
void visit_keys(step::RandomErasing& step, auto& keys) {
  keys.key("p", step.p);
  keys.key("scale", step.scale);
  keys.key("ratio", step.ratio);
  keys.key("value", step.value);
  keys.key("noise", step.noise);
}
void visit_keys(step::Augment::Operation& operation, auto& keys) {
  keys.choice("op", operation.kind, kAugmentations);
  keys.key("p", operation.p);
  keys.key("magnitudes", operation.magnitudes);
  keys.key("either_sign", operation.either_sign);
  keys.key("share", operation.share);
  keys.key("bins", operation.bins);
}
void visit_keys(step::Augment& step, auto& keys) {
  keys.objects("policies", step.policies);
  keys.key("times", step.times);
  keys.choice("interpolation", step.interpolation, kInterpolations);
  keys.key("fill", step.fill);
  keys.key("first_generation", step.first_generation);
}
void visit_keys(step::RandomApply& step, auto& keys) {
  keys.steps("transforms", step.steps);
  keys.key("p", step.p);
}
void visit_keys(step::RandomChoice& step, auto& keys) {
  keys.steps("transforms", step.choices);
  keys.key("p", step.weights);
}
void visit_keys(step::RandomOrder& step, auto& keys) {
  keys.steps("transforms", step.parts);
}
void visit_keys(step::Normalize& step, auto& keys) {
  keys.key("mean", step.mean);
  keys.key("std", step.std);
}
void visit_keys(step::ToDtype& step, auto& keys) {
  keys.choice("dtype", step.type, kTypes);
  keys.key("scale", step.scale);
  keys.key("reciprocal", step.reciprocal);
}
void visit_keys(step::ToLayout& step, auto& keys) {
  keys.choice("layout", step.layout, kLayouts);
}

template <size_t kIndex = 0>
Result<Step> read_any(const Json& json, const std::string& name) {
  if constexpr (kIndex < std::variant_size_v<Step>) {
    using Kind = std::variant_alternative_t<kIndex, Step>;
    if (Kind::kName != name) return read_any<kIndex + 1>(json, name);
    Kind step;
    KeyReader keys(json);
    visit_keys(step, keys);
    if (const std::string flaw = keys.flaw(); !flaw.empty())
      return fail(ErrorKind::invalid, fmt::format("{}: {}", name, flaw));
    return step;
  } else {
    std::vector<std::string> known;
    [&known]<size_t... kKinds>(std::index_sequence<kKinds...>) {
      (known.emplace_back(std::variant_alternative_t<kKinds, Step>::kName), ...);
    }(std::make_index_sequence<std::variant_size_v<Step>>());
    return fail(ErrorKind::invalid,
                fmt::format("step '{}' is not known; there are {}", name, joined(known)));
  }
}

Result<Steps> read_steps(const Json& json) {
  if (!json.is_array()) {
    return fail(ErrorKind::invalid,
                "a transform must be a JSON list of steps, such as "
                "[{\"step\": \"Resize\", \"size\": 256}]");
  }
  Steps steps;
  for (const Json& item : json) {
    const auto name = item.is_object() ? item.find("step") : item.end();
    if (!item.is_object() || name == item.end() || !name->is_string()) {
      return fail(ErrorKind::invalid,
                  fmt::format("step {} has no \"step\" with its name in it", steps.size() + 1));
    }
    FORELOAD_TRY(Step step, read_any(item, name->get<std::string>()));
    steps.push_back(std::move(step));
  }
  return steps;
}

Json steps_json(const Steps& steps) {
  auto list = Json::array();
  for (const Step& step : steps) {
    KeyWriter keys;
    std::visit([&keys](auto kind) { visit_keys(kind, keys); }, step);
    Json json{{"step", name_of(step)}};
    json.update(keys.json());
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

Result<Steps> steps_from_json(std::string_view text) {
  return read_steps(Json::parse(text, nullptr, /*allow_exceptions=*/false));
}

std::string to_json(const Steps& steps) {
  return steps_json(steps).dump();
}

}  // namespace foreload
