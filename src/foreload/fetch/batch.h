// SPDX-License-Identifier: Apache-2.0
//
// What an engine hands out: samples in order, or those that somebody fetched.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "foreload/base/result.h"
#include "foreload/decode/transform.h"

namespace foreload {

// Where the bytes of a delivered sample came from; same_host: from the memory of another rank on
// this host. A sample that was read ahead into a tier counts as coming from the source the first
// time. staging: nothing was read for it; it is a copy of a sample in another place of an open
// batch.
enum class From : uint8_t { memory, disk, same_host, peer, source, staging };
inline constexpr size_t kFroms = 6;

// One part of all samples of a batch: `decoded` holds them one after another, or `apart` does where
// their sizes differ, or `bytes` where the part is not decoded.
struct BatchPart {
  std::string name;
  OutputForm form;
  std::span<std::byte> decoded;
  std::vector<Transform::Sample> apart;
  std::vector<std::span<const std::byte>> bytes;
};

// A finished batch. Whoever holds `memory` keeps the bytes. Where samples are decoded, `decoded`
// holds them one after another, or `apart` does where their sizes differ, and `bytes` is empty; of
// samples of named parts, `parts` has all that.
struct Batch {
  uint64_t epoch = 0;
  uint64_t first = 0;  // position of its first sample in the rank's list of the epoch
  bool last_of_epoch = false;
  std::vector<uint64_t> samples;  // whose bytes these are; a skipped sample shows its substitute
  std::vector<uint64_t> skipped;
  std::vector<std::span<const std::byte>> bytes;
  std::span<std::byte> decoded;
  OutputForm form;  // of each decoded sample
  std::vector<Transform::Sample> apart;
  std::vector<BatchPart> parts;  // in the order of the SampleTransform
  std::vector<std::shared_ptr<const void>> memory;
  std::array<uint64_t, kFroms> from_bytes{};
  std::array<uint64_t, kFroms> from_samples{};
};

// What a fetch gives. It has no epoch.
struct Fetched {
  Batch batch;
  std::map<uint32_t, Error> errors;  // by place, of samples that cannot be had
};

}  // namespace foreload
