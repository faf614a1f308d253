// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/transform.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/version.h"
#include "foreload/decode/chain.h"
#include "foreload/decode/number_image.h"
#include "foreload/decode/number_passes.h"
#include "foreload/decode/parcel.h"
#include "foreload/decode/pass_runner.h"
#include "foreload/decode/pixel_kernels.h"
#include "foreload/decode/row_writer.h"
#include "foreload/decode/sample_plan.h"

namespace foreload {
namespace {

Result<void> check_mask(ImageSize mask, std::optional<ImageSize> picture) {
  if (!picture || *picture == mask) return {};
  return fail(ErrorKind::invalid,
              fmt::format("the mask is {} x {} pixels (width x height) and its picture {} x {}: "
                          "resize the mask to its picture, or name the right files",
                          mask.width, mask.height, picture->width, picture->height));
}

}  // namespace

uint64_t OutputForm::bytes() const {
  return uint64_t{size.width} * size.height * channels * bytes_of(type) * pictures;
}

Result<std::shared_ptr<const Transform>> Transform::compile(Steps steps) {
  return compile(std::move(steps), best_kernels());
}

Result<std::shared_ptr<const Transform>> Transform::compile(Steps steps,
                                                            const PixelKernels& kernels) {
  return compile(std::move(steps), kernels, nullptr);
}

Result<std::shared_ptr<const Transform>> Transform::compile(Steps steps,
                                                            const PixelKernels& kernels,
                                                            std::shared_ptr<const MaskRule> mask) {
  FORELOAD_TRY(const ChainResult chain, check_chain(steps, mask != nullptr));
  std::shared_ptr<Transform> transform(new Transform());
  transform->mask_ = std::move(mask);
  transform->steps_ = std::move(steps);
  transform->form_ = chain.form;
  if (chain.numbers) {
    transform->numbers_ = std::make_shared<const NumberSettings>(
        NumberSettings{.options = transform->options(),
                       .decoded = std::get<step::Decode>(transform->steps_.front()).type,
                       .form = chain.form,
                       .math = chain.math});
  } else {
    transform->writer_ = std::make_shared<const RowWriter>(
        RowWriter::make(chain.form.type, chain.form.layout, chain.form.channels, chain.math));
  }
  transform->kernels_ = &kernels;
  return transform;
}

std::shared_ptr<const Transform> Transform::packing(std::shared_ptr<const PackingRule> rule) const {
  auto transform = std::make_shared<Transform>(*this);
  const bool fast = std::get<step::Decode>(steps_.front()).fast;
  const bool possible =
      form_.fixed() && form_.type == PixelType::uint8 && form_.channels == 3 && form_.pictures == 1;
  transform->packing_ = possible && !fast ? std::move(rule) : nullptr;
  return transform;
}

std::shared_ptr<const Transform> Transform::with_other_formats(OtherDecoder decoder,
                                                               std::string name) const {
  std::shared_ptr<Transform> copy(new Transform(*this));
  copy->other_ = std::move(decoder);
  copy->other_name_ = std::move(name);
  return copy;
}

Result<std::shared_ptr<const Transform>> Transform::for_masks(uint8_t fill, PixelType type) const {
  FORELOAD_TRY(const auto transform, compile(mask_chain(steps_, type), *kernels_,
                                             std::make_shared<const MaskRule>(MaskRule{fill})));
  return transform->with_other_formats(other_, other_name_);
}

bool Transform::random() const {
  return std::ranges::any_of(steps_, is_random);
}

std::string Transform::recipe() const {
  return fmt::format("{} mask {} foreload {} {} {}", to_json(steps_),
                     mask_ ? std::to_string(mask_->fill) : "no", version(), decoder_libraries(),
                     other_name_);
}

DecodeOptions Transform::options() const {
  const auto& step = std::get<step::Decode>(steps_.front());
  return {.mode = step.mode, .exif_orientation = step.exif_orientation, .rough = step.fast};
}

Result<ImageHeader> Transform::open(std::span<const std::byte> file, Scratch& scratch) const {
  if (is_npy(file)) {
    const auto& step = std::get<step::Decode>(steps_.front());
    FORELOAD_TRY(const NpyArray array, parse_npy(file));
    FORELOAD_TRY(const ImageSize size, check_image(array, step.type, step.mode));
    if (!numbers_) pixels_of(array, step.mode, scratch.decoded);
    return ImageHeader{.size = size};
  }
  if (!other_ || file.empty() || format_of(file) != nullptr) return read_header(file, options());
  return open_other(file, no_known_format(), scratch);
}

Result<ImageHeader> Transform::open_other(std::span<const std::byte> file, std::string_view why,
                                          Scratch& scratch) const {
  if (!other_) return fail(ErrorKind::invalid, std::string(why));
  if (const auto decoded = other_(file, options(), scratch.decoded); !decoded) {
    return fail(ErrorKind::invalid, fmt::format("{}, and {}", why, decoded.error().message));
  }
  assert(scratch.decoded.channels() == channels_of(options().mode));
  return ImageHeader{.size = scratch.decoded.size()};
}

Result<void> Transform::run_plan(std::span<const std::byte> file, const ImageHeader& header,
                                 const SamplePlan& plan, std::span<std::byte> into,
                                 Scratch& scratch) const {
  const auto run_with = [&](const ImageHeader& opened) {
    if (numbers_) return run_number_passes(file, opened, plan, *numbers_, into, scratch);
    const PassSettings settings{.options = options(),
                                .fast = std::get<step::Decode>(steps_.front()).fast,
                                .writer = writer_.get(),
                                .kernels = kernels_};
    return run_passes(file, opened, plan, settings, into, scratch);
  };
  const auto done = run_with(header);
  if (done || done.error().kind != ErrorKind::unsupported) return done;
  FORELOAD_TRY(const ImageHeader other, open_other(file, done.error().message, scratch));
  if (other.size != header.upright()) {
    return fail(ErrorKind::invalid,
                fmt::format("{}, and whose size is not the one it declares", done.error().message));
  }
  return run_with(other);
}

Result<ImageSize> Transform::run(std::span<const std::byte> file, const SampleKey& key,
                                 std::span<std::byte> into, Scratch& scratch,
                                 std::optional<ImageSize> picture) const {
  assert(form_.fixed() && into.size() == form_.bytes());
  FORELOAD_TRY(const ImageHeader header, open(file, scratch));
  const ImageSize size = header.upright();
  FORELOAD_CHECK(check_mask(size, picture));
  FORELOAD_TRY(const SamplePlan plan, plan_sample(steps_, size, key, mask_.get()));
  if (packing_ && packing_->chooses(key.position) && packing_->pack(file, header, plan, key, into))
    return size;
  FORELOAD_CHECK(run_plan(file, header, plan, into, scratch));
  return size;
}

Result<Transform::Sample> Transform::run(std::span<const std::byte> file, const SampleKey& key,
                                         Scratch& scratch, std::optional<ImageSize> picture) const {
  FORELOAD_TRY(const ImageHeader header, open(file, scratch));
  const ImageSize size = header.upright();
  FORELOAD_CHECK(check_mask(size, picture));
  FORELOAD_TRY(const SamplePlan plan, plan_sample(steps_, size, key, mask_.get()));
  Sample sample{.form = form_, .file = size};
  sample.form.size = plan.size();
  sample.bytes.resize(sample.form.bytes());
  FORELOAD_CHECK(run_plan(file, header, plan, sample.bytes, scratch));
  return sample;
}

DrawnParameters Transform::draw(ImageSize image, const SampleKey& key) const {
  DrawnParameters drawn;
  const auto plan = plan_sample(steps_, image, key, mask_.get());
  if (!plan) return drawn;
  const Pass& first = plan->passes.front();
  drawn.crop = first.crop;
  drawn.resized = first.resized;
  drawn.left = first.left;
  drawn.top = first.top;
  drawn.size = first.size;
  bool jittered = false;
  for (const Pass& pass : plan->passes) {
    drawn.flip ^= pass.flip;
    for (const PictureOp& op : pass.ops) {
      const auto* jitter = std::get_if<JitterDraw>(&op);
      if (jitter == nullptr || std::exchange(jittered, true)) continue;
      drawn.jitter = jitter->factors;
      drawn.jitter_order = jitter->order;
    }
  }
  return drawn;
}

}  // namespace foreload
