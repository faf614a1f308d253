// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/wire.h"

#include <array>
#include <bit>
#include <cassert>
#include <concepts>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "foreload/base/hash.h"

namespace foreload {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

// magic u16, version u16, kind u8, length u8, zero u16; then the fields; then a checksum u64.
constexpr uint16_t kMagic = 0x4c46;  // "FL"
constexpr size_t kStartBytes = 8;
constexpr size_t kChecksumBytes = 8;
constexpr size_t kFirstKind = 1;  // of the first in the variant

class Writer {
 public:
  template <class T>
    requires std::integral<T> || std::is_enum_v<T>
  void field(T value) {
    assert(size_ + sizeof value <= bytes_.size());
    std::memcpy(bytes_.data() + size_, &value, sizeof value);
    size_ += sizeof value;
  }
  std::span<std::byte> written() { return std::span(bytes_).first(size_); }

 private:
  std::array<std::byte, kMostWireBytes> bytes_{};
  size_t size_ = 0;
};

// Reads fields as the writer wrote them; whoever uses it has compared the length before.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <class T>
    requires std::integral<T> || std::is_enum_v<T>
  void field(T& value) {
    assert(bytes_.size() >= sizeof value);
    std::memcpy(&value, bytes_.data(), sizeof value);
    bytes_ = bytes_.subspan(sizeof value);
  }

 private:
  std::span<const std::byte> bytes_;
};

// Only counts, to know how long the fields of a kind are.
class Ruler {
 public:
  template <class T>
  void field(const T&) {
    size += sizeof(T);
  }
  size_t size = 0;
};

// The fields of each kind, in the order of the bytes; the same list writes, reads and measures.
template <class Pen, class M>
void each_field(Pen& pen, M& m) {
  using Kind = std::remove_const_t<M>;
  if constexpr (std::is_same_v<Kind, wire::Request>) {
    pen.field(m.request), pen.field(m.sample);
  } else if constexpr (std::is_same_v<Kind, wire::Reply>) {
    pen.field(m.request), pen.field(m.version), pen.field(m.checksum), pen.field(m.status);
  } else if constexpr (std::is_same_v<Kind, wire::Push>) {
    pen.field(m.push), pen.field(m.sample), pen.field(m.version), pen.field(m.checksum);
  } else if constexpr (std::is_same_v<Kind, wire::PushAnswer>) {
    pen.field(m.push), pen.field(m.status);
  } else if constexpr (std::is_same_v<Kind, wire::Cancel>) {
    pen.field(m.request);
  } else if constexpr (std::is_same_v<Kind, wire::Ping> || std::is_same_v<Kind, wire::Pong>) {
    pen.field(m.number);
  } else {
    static_assert(std::is_same_v<Kind, wire::Goodbye>);
  }
}

bool within_bounds(const WireMessage& message) {
  if (const auto* reply = std::get_if<wire::Reply>(&message)) {
    return reply->status <= wire::ReplyStatus::missing;
  }
  if (const auto* answer = std::get_if<wire::PushAnswer>(&message)) {
    return answer->status <= wire::PushStatus::refused;
  }
  return true;
}

// An empty message of the kind with this number, false if there is none.
template <size_t... Is>
bool make_kind(size_t kind, WireMessage& message, std::index_sequence<Is...>) {
  return ((kind == kFirstKind + Is ? (message.emplace<Is>(), true) : false) || ...);
}

tl::unexpected<Error> refused(std::string what) {
  return fail(ErrorKind::invalid,
              fmt::format("cannot read a peer's message: {}; it is dropped. Run "
                          "the same version of foreload on every rank",
                          what));
}

}  // namespace

std::vector<std::byte> encode(const WireMessage& message) {
  assert(within_bounds(message));
  return std::visit(
      [&](const auto& m) {
        Ruler ruler;
        each_field(ruler, m);
        const size_t length = kStartBytes + ruler.size + kChecksumBytes;
        Writer writer;
        writer.field(kMagic);
        writer.field(kWireVersion);
        writer.field(static_cast<uint8_t>(kFirstKind + message.index()));
        writer.field(static_cast<uint8_t>(length));
        writer.field(uint16_t{0});
        each_field(writer, m);
        writer.field(checksum64(writer.written()));
        const auto bytes = writer.written();
        return std::vector<std::byte>(bytes.begin(), bytes.end());
      },
      message);
}

Result<WireMessage> parse_message(std::span<const std::byte> header) {
  if (header.size() < kStartBytes) return refused(fmt::format("{} bytes only", header.size()));
  if (header.size() > kMostWireBytes) {
    return refused(fmt::format("{} bytes, at most {} are allowed", header.size(), kMostWireBytes));
  }
  Reader start(header);
  uint16_t magic = 0, version = 0, zero = 0;
  uint8_t kind = 0, length = 0;
  start.field(magic), start.field(version), start.field(kind), start.field(length);
  start.field(zero);
  if (magic != kMagic) return refused("it is not a message of foreload");
  // Before anything else: another version may be laid out in another way from here on.
  if (version != kWireVersion) {
    return refused(fmt::format("version {}, this is version {}", version, kWireVersion));
  }
  WireMessage message;
  constexpr auto kKinds = std::make_index_sequence<std::variant_size_v<WireMessage>>{};
  if (!make_kind(kind, message, kKinds)) return refused(fmt::format("unknown kind {}", kind));
  Ruler ruler;
  std::visit([&](auto& m) { each_field(ruler, m); }, message);
  const size_t expected = kStartBytes + ruler.size + kChecksumBytes;
  if (header.size() != expected || length != expected || zero != 0) {
    return refused(
        fmt::format("kind {} with {} bytes instead of {}", kind, header.size(), expected));
  }
  uint64_t checksum = 0;
  Reader(header.last(kChecksumBytes)).field(checksum);
  if (checksum != checksum64(header.first(expected - kChecksumBytes))) {
    return refused(fmt::format("wrong checksum of kind {}", kind));
  }
  Reader fields(header.subspan(kStartBytes, ruler.size));
  std::visit([&](auto& m) { each_field(fields, m); }, message);
  if (!within_bounds(message)) return refused(fmt::format("a value of kind {} out of range", kind));
  return message;
}

}  // namespace foreload
