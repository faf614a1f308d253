// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a rendezvous over TCP or MPI: a question (put or get, with key and value) and its
// answer, each a fixed start and bounded text. Shared by store and client; private to peers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "foreload/peers/rendezvous.h"

namespace foreload::peers {

inline constexpr char kFrameMagic[4] = {'F', 'L', 'R', '1'};

// Questions: put a value; get one, answered when the key is there; look for one, answered at once.
// Answers: the value was put, the question is refused (put: there is another value, or no room;
// look: there is none), the value is found.
enum class FrameKind : uint8_t { put, get, look, done, refused, found };

struct Frame {
  FrameKind kind = FrameKind::get;
  std::string key;
  std::string value;
};

struct FrameStart {
  char magic[4];
  uint8_t kind;
  uint8_t key_bytes;
  uint16_t zero;
  uint32_t value_bytes;
};
static_assert(sizeof(FrameStart) == 12);

// A put that was refused.
inline tl::unexpected<Error> cannot_put(const std::string& key) {
  return fail(ErrorKind::invalid,
              "cannot put " + key +
                  " into the rendezvous: it is there already, or the rendezvous "
                  "is full. Give every run another port, folder or name of the job");
}

// All of a frame but its value, which may be long and wanted by many.
inline std::string frame_start(FrameKind kind, const std::string& key, size_t value_bytes) {
  FrameStart start{};
  std::memcpy(start.magic, kFrameMagic, sizeof start.magic);
  start.kind = static_cast<uint8_t>(kind);
  start.key_bytes = static_cast<uint8_t>(key.size());
  start.value_bytes = static_cast<uint32_t>(value_bytes);
  return std::string(reinterpret_cast<const char*>(&start), sizeof start) + key;
}

inline std::string frame_bytes(const Frame& frame) {
  return frame_start(frame.kind, frame.key, frame.value.size()) + frame.value;
}

enum class FrameState { incomplete, complete, garbage };

// Takes a frame off the front of `bytes`. Garbage is known by its start already, so no more than
// the longest frame is ever kept.
inline FrameState take_frame(std::string& bytes, Frame& frame) {
  FrameStart start{};
  const size_t known = std::min(bytes.size(), sizeof start);
  std::memcpy(&start, bytes.data(), known);
  if (std::memcmp(start.magic, kFrameMagic, std::min(known, sizeof start.magic)) != 0) {
    return FrameState::garbage;
  }
  if (known < sizeof start) return FrameState::incomplete;
  if (start.kind > static_cast<uint8_t>(FrameKind::found) || start.key_bytes > kMostKeyBytes ||
      start.value_bytes > kMostValueBytes || start.zero != 0) {
    return FrameState::garbage;
  }
  const size_t whole = sizeof start + start.key_bytes + start.value_bytes;
  if (bytes.size() < whole) return FrameState::incomplete;
  frame.kind = static_cast<FrameKind>(start.kind);
  frame.key = bytes.substr(sizeof start, start.key_bytes);
  frame.value = bytes.substr(sizeof start + start.key_bytes, start.value_bytes);
  bytes.erase(0, whole);
  return FrameState::complete;
}

}  // namespace foreload::peers
