// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/ucx/frame.h"

#include <bit>
#include <cassert>
#include <cstring>

namespace foreload::ucx {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

std::vector<std::byte> seal_frame(Seal& seal, FrameStart start, std::span<const std::byte> header,
                                  std::span<const std::byte> piece) {
  assert(header.size() <= kMostHeaderBytes && piece.size() <= kMostPieceBytes);
  start.header_bytes = static_cast<uint32_t>(header.size());
  start.piece_bytes = static_cast<uint32_t>(piece.size());
  std::vector<std::byte> frame(sizeof start + header.size() + sizeof(Tag));
  std::memcpy(frame.data(), &start, sizeof start);
  if (!header.empty()) std::memcpy(frame.data() + sizeof start, header.data(), header.size());
  const size_t tagged = sizeof start + header.size();
  const Tag tag = seal.tag(start.count, std::span(frame).first(tagged), piece);
  std::memcpy(frame.data() + tagged, tag.data(), tag.size());
  return frame;
}

std::optional<uint32_t> claimed_sender(std::span<const std::byte> frame, uint32_t ranks) {
  FrameStart start;
  if (frame.size() < sizeof start + sizeof(Tag) || frame.size() > kMostFrameBytes) return {};
  const FrameStart expected;
  std::memcpy(&start, frame.data(), sizeof start);
  if (std::memcmp(start.magic, expected.magic, sizeof start.magic) != 0) return {};
  if (start.from >= ranks) return {};
  return start.from;
}

std::optional<OpenedFrame> open_frame(Seal& seal, std::span<const std::byte> frame,
                                      std::span<const std::byte> piece, uint64_t last_count) {
  if (piece.size() > kMostPieceBytes) return {};
  OpenedFrame opened;
  std::memcpy(&opened.start, frame.data(), sizeof opened.start);
  const FrameStart& start = opened.start;
  // The count is the nonce; all else is looked at when the tag is right.
  const size_t tagged = frame.size() - sizeof(Tag);
  Tag tag;
  std::memcpy(tag.data(), frame.data() + tagged, tag.size());
  if (start.count <= last_count) return {};
  if (!seal.matches(start.count, frame.first(tagged), piece, tag)) return {};
  opened.header = frame.subspan(sizeof start, tagged - sizeof start);
  const bool begins = start.offset == 0;
  if (start.header_bytes != opened.header.size() || start.piece_bytes != piece.size() ||
      begins == opened.header.empty() || start.payload_bytes > kMostPayloadBytes ||
      start.offset > start.payload_bytes || piece.size() > start.payload_bytes - start.offset ||
      // Only a message without payload has an empty piece.
      piece.empty() != (start.payload_bytes == 0)) {
    return {};
  }
  return opened;
}

}  // namespace foreload::ucx
