// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/sample_transform.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace foreload {

SampleTransform::SampleTransform(std::shared_ptr<const Transform> transform) {
  if (transform)
    parts_ = std::make_shared<const std::vector<Part>>(1, Part{{}, std::move(transform)});
}

Result<SampleTransform> SampleTransform::make(std::vector<Part> parts) {
  const auto refuse = [](const Part& part, std::string_view why) {
    return fail(ErrorKind::invalid, fmt::format("cannot decode part '{}': {}", part.name, why));
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = parts[i];
    if (part.name.empty()) return refuse(part, "it has no name; give it one");
    if (std::ranges::count(parts, part.name, &Part::name) > 1)
      return refuse(part, "there are two of this name; give each its own");
    if (!part.mask_of) continue;
    if (*part.mask_of >= i || !parts[*part.mask_of].transform || !part.transform)
      return refuse(part, "it is the mask of no picture before it; name the picture first");
  }
  if (std::ranges::none_of(parts, [](const Part& part) { return part.transform != nullptr; }))
    return fail(ErrorKind::invalid, "cannot decode samples: no part has a transform; give one");
  SampleTransform transform;
  transform.parts_ = std::make_shared<const std::vector<Part>>(std::move(parts));
  return transform;
}

std::shared_ptr<const Transform> SampleTransform::whole() const {
  return parts_ && !named() ? parts_->front().transform : nullptr;
}

bool SampleTransform::gives_bytes() const {
  return std::ranges::any_of(*parts_, [](const Part& part) { return !part.transform; });
}

uint64_t SampleTransform::fixed_bytes() const {
  uint64_t bytes = 0;
  for (const Part& part : *parts_)
    if (part.transform && part.transform->form().fixed()) bytes += part.transform->form().bytes();
  return bytes;
}

}  // namespace foreload
