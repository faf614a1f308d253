// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/parcel.h"

#include <cassert>
#include <cstring>
#include <random>
#include <type_traits>

#include "foreload/decode/jpeg.h"

namespace foreload {
namespace {

using Bytes = std::span<const std::byte>;

static_assert(std::is_trivially_copyable_v<ParcelHeader>);

// How much an axis may shrink: kernels keep the weights of an output in shared memory.
constexpr uint32_t kMostShrinking = 20;

uint32_t byte_at(Bytes bytes, size_t at) {
  return std::to_integer<uint32_t>(bytes[at]);
}

bool ends_as_it_should(Bytes file) {
  return file.size() >= 4 && byte_at(file, file.size() - 2) == 0xFF &&
         byte_at(file, file.size() - 1) == 0xD9;
}

// Of a frame: precision, height, width, number of channels, then identity, sampling and table each.
bool is_plain_frame(Bytes frame) {
  if (frame.size() != 15 || byte_at(frame, 0) != 8 || byte_at(frame, 5) != 3) return false;
  const uint32_t luma = byte_at(frame, 7);
  return (luma == 0x11 || luma == 0x21 || luma == 0x22) && byte_at(frame, 10) == 0x11 &&
         byte_at(frame, 13) == 0x11;
}

bool fits(const Pass& pass) {
  return pass.interpolation == Interpolation::bilinear && pass.ops.empty() && !pass.flip_rows &&
         pass.crop.width <= uint64_t{kMostShrinking} * pass.resized.width &&
         pass.crop.height <= uint64_t{kMostShrinking} * pass.resized.height;
}

}  // namespace

bool is_plain_jpeg(Bytes file) {
  constexpr uint32_t kBaseline = 0xC0, kScan = 0xDA, kAdobe = 0xEE;
  if (!ends_as_it_should(file)) return false;
  bool framed = false;
  for (size_t at = 2; at + 4 <= file.size();) {
    if (byte_at(file, at) != 0xFF) return false;
    const uint32_t marker = byte_at(file, at + 1);
    const size_t length = byte_at(file, at + 2) << 8 | byte_at(file, at + 3);
    if (length < 2 || at + 2 + length > file.size()) return false;
    const Bytes body = file.subspan(at + 4, length - 2);
    if (marker == kScan) {
      return framed && !body.empty() && byte_at(body, 0) == 3 &&
             only_end_marker_ahead(file.subspan(at + 2 + length));
    }
    if (marker == kAdobe) return false;  // may say that the channels are not YCbCr
    const bool frame =
        0xC0 <= marker && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
    if (frame) {
      if (framed || marker != kBaseline || !is_plain_frame(body)) return false;
      framed = true;
    }
    at += 2 + length;
  }
  return false;
}

PackingRule::PackingRule(uint32_t share) : share_(share) {
  assert(share <= kAll);
  std::random_device random;
  for (uint64_t& word : stamp_) word = uint64_t{random()} << 32 | random();
}

bool PackingRule::pack(Bytes file, const ImageHeader& header, const SamplePlan& plan,
                       const SampleKey& key, std::span<std::byte> place) const {
  const Pass& pass = plan.passes.front();
  if (header.format == nullptr || header.orientation != 1 || plan.passes.size() != 1 ||
      !plan.cuttings.empty() || !plan.erasures.empty() || !fits(pass) ||
      file.size() + sizeof(ParcelHeader) > place.size() || !is_jpeg(file) || !is_plain_jpeg(file)) {
    return false;
  }
  const ParcelHeader parcel{.stamp = stamp_,
                            .file_bytes = file.size(),
                            .key = key,
                            .image = header.size,
                            .crop = pass.crop,
                            .resized = pass.resized,
                            .left = static_cast<int32_t>(pass.left),
                            .top = static_cast<int32_t>(pass.top),
                            .size = pass.size,
                            .fill = pass.fill,
                            .flip = pass.flip ? uint8_t{1} : uint8_t{0}};
  std::memcpy(place.data(), &parcel, sizeof parcel);
  std::memcpy(place.data() + sizeof parcel, file.data(), file.size());
  return true;
}

std::optional<Parcel> PackingRule::find(Bytes place) const {
  Parcel parcel;
  if (place.size() < sizeof parcel.header) return std::nullopt;
  std::memcpy(&parcel.header, place.data(), sizeof parcel.header);
  if (parcel.header.stamp != stamp_ ||
      parcel.header.file_bytes > place.size() - sizeof parcel.header) {
    return std::nullopt;
  }
  parcel.file = place.subspan(sizeof parcel.header, parcel.header.file_bytes);
  return parcel;
}

}  // namespace foreload
