// SPDX-License-Identifier: Apache-2.0
//
// A chain of steps, checked and compiled into one pass from the bytes of a file to the final place
// of a sample in its batch: parameters are drawn, only the needed region is decoded, resized once
// (the flip with it), and written as the type and layout asked for.
//
// The result is a function of (bytes, chain, key) alone. Immutable; any thread may run it, each
// with a Scratch of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/steps.h"

namespace foreload {

// What the random parameters of one sample are drawn from: its place in the run, not who decodes
// it or when. `position` is the global position in the epoch's order.
struct SampleKey {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t position = 0;
};

struct OutputForm {
  ImageSize size;  // {0, 0}: differs from sample to sample
  uint32_t channels = 3;
  PixelType type = PixelType::uint8;
  Layout layout = Layout::hwc;

  bool fixed() const { return size.width > 0; }
  // Of one sample. REQUIRES: fixed().
  uint64_t bytes() const;
};

// What was drawn for a sample, for tests and for people who want to see it.
struct DrawnParameters {
  Region crop;  // of the upright image, before resizing
  ImageSize resized;
  bool flip = false;
  std::array<double, 3> jitter{1, 1, 1};         // brightness, contrast, saturation
  std::array<uint8_t, 3> jitter_order{0, 1, 2};  // indices into `jitter`
};

class Transform {
 public:
  // Fails with `invalid` for a chain that makes no sense (Normalize before a crop, two types, ...)
  // and says which step and why. A chain without Decode has one in front.
  static Result<std::shared_ptr<const Transform>> compile(std::vector<Step> steps);

  const OutputForm& form() const { return form_; }
  const std::vector<Step>& steps() const { return steps_; }
  // Whether two runs with different keys may differ.
  bool random() const;

  // Writes one sample to `into`. Fails with `invalid` as decode() does. REQUIRES: form().fixed()
  // and into.size() == form().bytes(); `into` is aligned to the pixel type.
  Result<void> run(std::span<const std::byte> file, const SampleKey& key, std::span<std::byte> into,
                   Scratch& scratch) const;
  // The same where sizes differ: the sample's own form and bytes.
  struct Sample {
    OutputForm form;
    std::vector<std::byte> bytes;
  };
  Result<Sample> run(std::span<const std::byte> file, const SampleKey& key, Scratch& scratch) const;

  // What run() would draw for an image of this (upright) size.
  DrawnParameters draw(ImageSize image, const SampleKey& key) const;

 private:
  Transform() = default;

  std::vector<Step> steps_;
  OutputForm form_;
};

}  // namespace foreload
