// SPDX-License-Identifier: Apache-2.0
//
// What goes over UCX: frames. A message is one frame with its header and the first piece of its
// payload, and more frames with the other pieces, if there are any. Each frame says who sent it,
// its count, and where its piece belongs, and ends in a tag over all of that and the piece.
// docs/formats.md has it byte by byte. Nothing of a frame is used before its tag was found right,
// except the rank that says whose key it claims to be under. Plain functions on a seal; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "foreload/peers/ucx/seal.h"

namespace foreload::ucx {

struct FrameStart {
  char magic[4] = {'F', 'L', 'U', '1'};
  uint32_t from = 0;           // the sender's rank
  uint64_t count = 0;          // 1 for the first frame of a direction; grows by 1
  uint64_t payload_bytes = 0;  // of the whole message
  uint64_t offset = 0;         // of this piece in the payload; 0: a message begins
  uint32_t header_bytes = 0;   // 0 unless a message begins
  uint32_t piece_bytes = 0;
};
static_assert(sizeof(FrameStart) == 40);

// A sample of 100 KiB fits into one frame.
inline constexpr size_t kMostPieceBytes = 112 << 10;
// Without the piece, which UCX carries beside it.
inline constexpr size_t kMostFrameBytes = sizeof(FrameStart) + kMostHeaderBytes + sizeof(Tag);

// Everything but the piece: start, header, tag. `start` has all fields but the two lengths.
std::vector<std::byte> seal_frame(Seal& seal, FrameStart start, std::span<const std::byte> header,
                                  std::span<const std::byte> piece);

// The rank that a frame claims to be from; nothing if it cannot be a frame.
std::optional<uint32_t> claimed_sender(std::span<const std::byte> frame, uint32_t ranks);

struct OpenedFrame {
  FrameStart start;
  std::span<const std::byte> header;  // inside the frame
};
// Nothing if the tag is wrong, a length is out of bounds, or the count is not above `last_count`.
// REQUIRES: claimed_sender() gave a rank, and the seal is that rank's.
std::optional<OpenedFrame> open_frame(Seal& seal, std::span<const std::byte> frame,
                                      std::span<const std::byte> piece, uint64_t last_count);

}  // namespace foreload::ucx
