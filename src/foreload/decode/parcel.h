// SPDX-License-Identifier: Apache-2.0
//
// Samples that a GPU decodes later. Instead of pixels, the place of such a sample in its batch
// holds a parcel: the JPEG file, and what was drawn for it. The place has the same size either way,
// so batches are made, kept and copied as ever, and whoever has the batch in the end unpacks them.
//
// Which samples become parcels is a function of their position in the epoch, of the share asked
// for, and of the file: what a GPU decodes differs from what the CPU decodes by a few levels, so it
// must not depend on who is faster today.
//
// A PackingRule is for any thread; its share may be changed while nobody decodes.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "foreload/decode/decoder.h"
#include "foreload/decode/sample_plan.h"
#include "foreload/decode/sample_random.h"

namespace foreload {

// What begins the place of a packed sample; the file follows.
struct ParcelHeader {
  std::array<uint64_t, 2> stamp{};
  uint64_t file_bytes = 0;
  SampleKey key;
  ImageSize image;
  Region crop;
  ImageSize resized;
  int32_t left = 0;
  int32_t top = 0;
  ImageSize size;
  std::array<uint8_t, 3> fill{};
  uint8_t flip = 0;
};

struct Parcel {
  ParcelHeader header;
  std::span<const std::byte> file;
};

class PackingRule {
 public:
  static constexpr uint32_t kAll = 256;

  // REQUIRES: share <= kAll.
  explicit PackingRule(uint32_t share);

  // Of kAll samples, how many become parcels if their files allow it.
  uint32_t share() const { return share_.load(std::memory_order_relaxed); }
  void set_share(uint32_t share) { share_.store(share, std::memory_order_relaxed); }
  // Evenly spread over positions, also over every n-th one, as a rank reads them.
  bool chooses(uint64_t position) const {
    return static_cast<uint32_t>(position * 0x9E3779B97F4A7C15 >> 56) < share();
  }

  // Writes the parcel to `place` if a GPU can do all that is left to do: a baseline JPEG file that
  // ends as it should, one resize with antialiasing, and room for both. False: the CPU decodes.
  bool pack(std::span<const std::byte> file, const ImageHeader& header, const SamplePlan& plan,
            const SampleKey& key, std::span<std::byte> place) const;
  // The parcel in a place; nothing where pixels are.
  std::optional<Parcel> find(std::span<const std::byte> place) const;

 private:
  // Drawn by each rule, so that no picture can look like a parcel.
  std::array<uint64_t, 2> stamp_;
  std::atomic<uint32_t> share_;
};

// Whether GPUs decode the file as a whole: baseline, three channels (YCbCr) at 4:4:4, 4:2:2 or
// 4:2:0, and not cut off.
bool is_plain_jpeg(std::span<const std::byte> file);

}  // namespace foreload
