// SPDX-License-Identifier: Apache-2.0
//
// The headers of messages between ranks, byte by byte as docs/formats.md describes them: fixed
// fields, little endian, every length bounded and every value checked before it is used, a checksum
// at the end. What does not parse is dropped by the receiver, never trusted. That all ranks have
// the same version, data set and plan, they make sure of before the first message. Plain functions,
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "foreload/base/result.h"

namespace foreload {

inline constexpr uint16_t kWireVersion = 2;
inline constexpr size_t kMostWireBytes = 96;  // of a header; today's longest has 48

namespace wire {

// Please send a sample. `request` carries a generation in its upper half, so that a late reply is
// recognised.
struct Request {
  uint64_t request = 0;
  uint64_t sample = 0;
  friend bool operator==(const Request&, const Request&) = default;
};
enum class ReplyStatus : uint8_t { here, missing };
// The payload is the sample if it is `here`.
struct Reply {
  uint64_t request = 0;
  ReplyStatus status = ReplyStatus::missing;
  uint64_t version = 0;
  uint64_t checksum = 0;
  friend bool operator==(const Reply&, const Reply&) = default;
};
// The receiver owns this sample; the payload is its bytes.
struct Push {
  uint64_t push = 0;
  uint64_t sample = 0;
  uint64_t version = 0;
  uint64_t checksum = 0;
  friend bool operator==(const Push&, const Push&) = default;
};
enum class PushStatus : uint8_t { kept, refused };
struct PushAnswer {
  uint64_t push = 0;
  PushStatus status = PushStatus::kept;
  friend bool operator==(const PushAnswer&, const PushAnswer&) = default;
};
// The asker does not want the reply any more.
struct Cancel {
  uint64_t request = 0;
  friend bool operator==(const Cancel&, const Cancel&) = default;
};
// The sender leaves in good order: what it held is not to be had any more.
struct Goodbye {
  friend bool operator==(const Goodbye&, const Goodbye&) = default;
};
// Sent when there was nothing else to say for a while; answered by Pong with the same number.
struct Ping {
  uint64_t number = 0;
  friend bool operator==(const Ping&, const Ping&) = default;
};
struct Pong {
  uint64_t number = 0;
  friend bool operator==(const Pong&, const Pong&) = default;
};

}  // namespace wire

using WireMessage = std::variant<wire::Request, wire::Reply, wire::Push, wire::PushAnswer,
                                 wire::Cancel, wire::Goodbye, wire::Ping, wire::Pong>;

// At most kMostWireBytes. REQUIRES: values within their bounds.
std::vector<std::byte> encode(const WireMessage& message);
// Fails with `invalid`: wrong magic, other version, unknown kind, wrong length, wrong checksum,
// value out of range.
Result<WireMessage> parse_message(std::span<const std::byte> header);

}  // namespace foreload
