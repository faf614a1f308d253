// SPDX-License-Identifier: Apache-2.0
//
// What is done to a sample: to each of its named parts a Transform of its own, or to a sample
// without named parts the one it has. A mask is moved as its picture is, a part without a Transform
// stays as it is stored. Immutable, and copied at the price of a pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/transform.h"

namespace foreload {

class SampleTransform {
 public:
  struct Part {
    std::string name;                            // as the index has it; empty: the whole sample
    std::shared_ptr<const Transform> transform;  // null: its bytes are delivered
    std::optional<size_t> mask_of = {};          // number of its picture, a part before it
  };

  SampleTransform() = default;  // samples are delivered as bytes
  // Samples without named parts. Null: as the default.
  SampleTransform(std::shared_ptr<const Transform> transform);  // NOLINT: that is the usual case
  // Fails with `invalid` for parts of one name, a mask of what is no picture before it, and where
  // nothing is decoded.
  static Result<SampleTransform> make(std::vector<Part> parts);

  explicit operator bool() const { return parts_ != nullptr; }

  // REQUIRES for what follows, but whole(): something is decoded.
  const std::vector<Part>& parts() const { return *parts_; }
  // Whether samples have named parts.
  bool named() const { return !parts_->front().name.empty(); }
  // Of samples without named parts; null: there is none.
  std::shared_ptr<const Transform> whole() const;
  // Whether some are delivered as bytes.
  bool gives_bytes() const;
  // Of one sample, in all parts whose form is fixed; 0: none is.
  uint64_t fixed_bytes() const;

 private:
  std::shared_ptr<const std::vector<Part>> parts_;
};

}  // namespace foreload
