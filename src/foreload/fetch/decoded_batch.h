// SPDX-License-Identifier: Apache-2.0
//
// The decoded samples of a batch: of each part, one region for all samples where its form is fixed,
// or memory for each sample where sizes differ. Hands keep it while they write to it, since the
// batch may be closed meanwhile.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/dataset/index.h"
#include "foreload/decode/form.h"
#include "foreload/decode/sample_transform.h"
#include "foreload/fetch/batch.h"
#include "foreload/staging/staging.h"

namespace foreload {

// The bytes of a sample, one part behind another, as they were read.
struct SampleBytes {
  const DatasetIndex& index;
  uint64_t sample;
  std::span<const std::byte> bytes;

  // The part of this name, all bytes for the empty one; nothing if there is none.
  std::optional<std::span<const std::byte>> part(std::string_view name) const;
  // "part 'mask' (/data/7.png)", for messages.
  std::string told(std::string_view name) const;
};

class DecodedBatch {
 public:
  // `form`: in which samples are kept, null for files. Fails with `invalid` if there is no memory.
  // REQUIRES: something is decoded; samples that have a form have no named parts, and one size.
  static Result<std::shared_ptr<DecodedBatch>> open(SampleTransform transform,
                                                    std::shared_ptr<const Form> form,
                                                    size_t samples, Staging& staging);

  // Decodes all parts of a sample to their places, or finishes what is kept of it. Fails with
  // `invalid` and says which part is bad and why. Several threads at a time, each with places of
  // its own.
  Result<void> decode(uint32_t place, const SampleBytes& sample, const SampleKey& key,
                      Scratch& scratch);
  // REQUIRES for the rest: nobody decodes to these places.
  void copy(uint32_t from, uint32_t to);
  // Moves everything to a batch, whose parts get their names.
  void give_to(Batch& batch);

  std::atomic<uint32_t> under_way{0};  // samples given to hands and not decoded yet

 private:
  DecodedBatch(SampleTransform transform, std::shared_ptr<const Form> form);
  std::span<std::byte> place_in(size_t part, uint32_t place) const;

  const SampleTransform transform_;
  const std::shared_ptr<const Form> form_;             // may be null
  std::shared_ptr<Slot> slot_;                         // a range for each part; null: none is fixed
  std::vector<std::vector<Transform::Sample>> apart_;  // by part; empty where the form is fixed
};

}  // namespace foreload
