// SPDX-License-Identifier: Apache-2.0
//
// A chain of steps, checked and compiled into as few passes as possible, mostly one, from the bytes
// of a file to the final place of a sample in its batch: parameters are drawn, only the needed
// region is decoded, resized once (the flip with it), and written as the type and layout asked for.
//
// The result is a function of (bytes, chain, key) alone. Immutable; any thread may run it, each
// with a Scratch of its own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/sample_random.h"
#include "foreload/decode/steps.h"

namespace foreload {

class PackingRule;
struct MaskRule;
struct NumberSettings;
struct PixelKernels;
struct RowWriter;
struct SamplePlan;

struct OutputForm {
  ImageSize size;         // {0, 0}: differs from sample to sample
  uint32_t pictures = 1;  // of this size each
  uint32_t channels = 3;
  PixelType type = PixelType::uint8;
  Layout layout = Layout::hwc;

  bool fixed() const { return size.width > 0; }
  // Of one sample. REQUIRES: fixed().
  uint64_t bytes() const;
};

// What was drawn for a sample, for tests and for people who want to see it. Of a chain with several
// resizes or jitters, the first one's.
struct DrawnParameters {
  Region crop;  // of the upright image, before resizing
  ImageSize resized;
  // What is taken of the resized image; what lies outside it is padding.
  int64_t left = 0;
  int64_t top = 0;
  ImageSize size;
  bool flip = false;
  std::array<double, 4> jitter{1, 1, 1, 0};         // brightness, contrast, saturation, hue
  std::array<uint8_t, 4> jitter_order{0, 1, 2, 3};  // indices into `jitter`
};

// Decodes a file of a format that this library does not know: the whole image, upright if the
// options ask for it, one byte per channel (never `wide`), as many channels as the mode has. Fails
// with `invalid` and says why, to be read after "..., and "; several threads call it at once.
using OtherDecoder = std::function<Result<void>(std::span<const std::byte> file,
                                                const DecodeOptions& options, PixelBuffer& out)>;

class Transform {
 public:
  // Fails with `invalid` for a chain that makes no sense (Normalize before a crop, two types, ...)
  // and says which step and why. A chain without Decode has one in front; without ToLayout the
  // layout is hwc; without Normalize or ToDtype the type is uint8, with Normalize alone float32.
  static Result<std::shared_ptr<const Transform>> compile(Steps steps);
  // The same with kernels of the caller's choice; see pixel_kernels.h.
  static Result<std::shared_ptr<const Transform>> compile(Steps steps, const PixelKernels& kernels);

  // The same transform, except that run() into a place leaves the samples that the rule chooses to
  // a GPU; see parcel.h. Only images of 8 bits in three channels can be left to one: others come
  // out as ever.
  std::shared_ptr<const Transform> packing(std::shared_ptr<const PackingRule> rule) const;
  // The same transform for masks of the images: what moves pixels is done as to the image with the
  // same key, if both have one size; a pixel of the result is one of the mask's, or `fill`. Colors
  // are left alone. Gives one channel of `type`, which is what Decode's type is to images. Fails
  // with `invalid` where a step needs 8 bits and the type has more.
  Result<std::shared_ptr<const Transform>> for_masks(uint8_t fill, PixelType type) const;
  // The same chain, with somebody to ask where a file is neither JPEG nor PNG nor WebP nor .npy, or
  // a JPEG file that the libjpeg at hand cannot decode as Pillow does. `name` says who that is,
  // with the version: "Pillow 11.0.0".
  std::shared_ptr<const Transform> with_other_formats(OtherDecoder decoder, std::string name) const;

  const OutputForm& form() const { return form_; }
  const std::vector<Step>& steps() const { return steps_; }
  // Whether two runs with different keys may differ.
  bool random() const;
  // Whether samples are left to a GPU.
  bool packs() const { return packing_ != nullptr; }
  // All that a sample depends on beside its file and its key, as a text: the chain, and the
  // versions of whoever decodes. Equal recipes give equal samples.
  std::string recipe() const;

  // Writes one sample to `into` and gives the size of the (upright) image in the file. `picture`:
  // the size of the picture that this is a mask of. Fails with `invalid` as decode() does, and if
  // the mask has another size, since no random crop of one fits the other. REQUIRES: form().fixed()
  // and into.size() == form().bytes(); `into` is aligned to the pixel type.
  Result<ImageSize> run(std::span<const std::byte> file, const SampleKey& key,
                        std::span<std::byte> into, Scratch& scratch,
                        std::optional<ImageSize> picture = std::nullopt) const;
  // The same where sizes differ: the sample's own form and bytes.
  struct Sample {
    OutputForm form;
    ImageSize file;  // size of the (upright) image in the file
    std::vector<std::byte> bytes;
  };
  Result<Sample> run(std::span<const std::byte> file, const SampleKey& key, Scratch& scratch,
                     std::optional<ImageSize> picture = std::nullopt) const;

  // What run() would draw for an image of this (upright) size; defaults where run() would fail.
  DrawnParameters draw(ImageSize image, const SampleKey& key) const;

 private:
  Transform() = default;
  static Result<std::shared_ptr<const Transform>> compile(Steps steps, const PixelKernels& kernels,
                                                          std::shared_ptr<const MaskRule> mask);

  // What the file declares; a file of another format, or an array of bytes in a .npy file, is
  // decoded into scratch.decoded.
  Result<ImageHeader> open(std::span<const std::byte> file, Scratch& scratch) const;
  // Asks the other decoder; `why` says what is wrong with the file if that fails too.
  Result<ImageHeader> open_other(std::span<const std::byte> file, std::string_view why,
                                 Scratch& scratch) const;
  Result<void> run_plan(std::span<const std::byte> file, const ImageHeader& header,
                        const SamplePlan& plan, std::span<std::byte> into, Scratch& scratch) const;
  DecodeOptions options() const;

  std::vector<Step> steps_;  // the first one is Decode
  OutputForm form_;
  std::shared_ptr<const RowWriter> writer_;        // null where numbers_ is not
  std::shared_ptr<const NumberSettings> numbers_;  // of images that are not plain bytes
  const PixelKernels* kernels_ = nullptr;
  std::shared_ptr<const PackingRule> packing_;  // null: everything is done here
  OtherDecoder other_;                          // may be empty
  std::string other_name_;
  std::shared_ptr<const MaskRule> mask_;  // null: for images
};

}  // namespace foreload
