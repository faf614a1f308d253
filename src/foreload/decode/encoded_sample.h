// SPDX-License-Identifier: Apache-2.0
//
// What is to be decoded: the bytes of a sample, by its named parts ("jpg", "cls"). A sample of one
// part, which most are, costs no more than its span. Owns no bytes and no names.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace foreload {

struct EncodedPart {
  std::string_view name;  // empty where a sample has one part only
  std::span<const std::byte> bytes;
};

class EncodedSample {
 public:
  explicit EncodedSample(std::span<const std::byte> whole) : whole_{{}, whole} {}
  // REQUIRES: more than one.
  explicit EncodedSample(std::vector<EncodedPart> parts) : parts_(std::move(parts)) {}

  size_t size() const { return parts_.empty() ? 1 : parts_.size(); }
  const EncodedPart& operator[](size_t i) const { return parts_.empty() ? whole_ : parts_[i]; }
  // What a chain of image steps decodes: the first part.
  std::span<const std::byte> picture() const { return (*this)[0].bytes; }

 private:
  EncodedPart whole_;
  std::vector<EncodedPart> parts_;  // empty: the sample has one part
};

}  // namespace foreload
