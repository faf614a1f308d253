// SPDX-License-Identifier: Apache-2.0
#include "foreload/peers/wire.h"

#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "foreload/base/hash.h"

namespace foreload {
namespace {

using Bytes = std::vector<std::byte>;

// One message of each kind, with random values within the bounds.
std::vector<WireMessage> one_of_each(uint64_t seed) {
  std::mt19937_64 random(seed);
  return {
      wire::Request{random(), random()},
      wire::Reply{random(), static_cast<wire::ReplyStatus>(random() % 2), random(), random()},
      wire::Push{random(), random(), random(), random()},
      wire::PushAnswer{random(), static_cast<wire::PushStatus>(random() % 2)},
      wire::Cancel{random()},
      wire::Goodbye{},
      wire::Ping{random()},
      wire::Pong{random()},
  };
}

// As encode() makes it, with some bytes written over and the checksum made right again: what a peer
// with a bug or bad intentions could send.
Bytes forged(const WireMessage& message, size_t at, const void* value, size_t size) {
  Bytes bytes = encode(message);
  std::memcpy(bytes.data() + at, value, size);
  const uint64_t checksum = checksum64(std::span(bytes).first(bytes.size() - 8));
  std::memcpy(bytes.data() + bytes.size() - 8, &checksum, 8);
  return bytes;
}

template <class T>
Bytes forged(const WireMessage& message, size_t at, T value) {
  return forged(message, at, &value, sizeof value);
}

TEST(Wire, EveryKindComesBack) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const auto messages = one_of_each(seed);
    ASSERT_EQ(messages.size(), std::variant_size_v<WireMessage>);
    for (const WireMessage& message : messages) {
      const Bytes bytes = encode(message);
      ASSERT_LE(bytes.size(), kMostWireBytes);
      const auto parsed = parse_message(bytes);
      ASSERT_TRUE(parsed) << parsed.error().message;
      EXPECT_EQ(*parsed, message) << "seed " << seed << ", kind " << message.index();
    }
  }
}

TEST(Wire, BytesAreThoseOfTheFormat) {
  const Bytes bytes = encode(wire::Request{0x0102030405060708, 0x1112131415161718});
  const std::vector<int> expected{0x46, 0x4c, 2,    0,    1,    32,   0,    0,
                                  0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01,
                                  0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11};
  ASSERT_EQ(bytes.size(), expected.size() + 8);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]);
  uint64_t checksum = 0;
  std::memcpy(&checksum, bytes.data() + 24, 8);
  EXPECT_EQ(checksum, checksum64(std::span(bytes).first(24)));
}

TEST(Wire, EveryTruncationIsRefused) {
  for (const WireMessage& message : one_of_each(7)) {
    const Bytes bytes = encode(message);
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(parse_message(std::span(bytes).first(size))) << message.index() << " " << size;
    }
  }
}

TEST(Wire, EveryExtensionIsRefused) {
  for (const WireMessage& message : one_of_each(8)) {
    Bytes bytes = encode(message);
    while (bytes.size() < 2 * kMostWireBytes) {
      bytes.push_back(std::byte{0});
      EXPECT_FALSE(parse_message(bytes));
    }
  }
}

TEST(Wire, EveryFlippedBitIsRefused) {
  for (const WireMessage& message : one_of_each(9)) {
    Bytes bytes = encode(message);
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
      EXPECT_FALSE(parse_message(bytes)) << message.index() << " bit " << bit;
      bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
    EXPECT_TRUE(parse_message(bytes));
  }
}

TEST(Wire, OtherVersionIsNamed) {
  const auto parsed = parse_message(forged(wire::Ping{1}, 2, uint16_t{1}));
  ASSERT_FALSE(parsed);
  EXPECT_EQ(parsed.error().kind, ErrorKind::invalid);
  EXPECT_NE(parsed.error().message.find("version 1, this is version 2"), std::string::npos);
}

// A later version may have longer messages and other checksums; its number must still be read.
TEST(Wire, OtherVersionIsNamedWhateverItsLength) {
  Bytes bytes = forged(wire::Goodbye{}, 2, uint16_t{77});
  bytes.resize(kMostWireBytes, std::byte{5});
  const auto parsed = parse_message(bytes);
  ASSERT_FALSE(parsed);
  EXPECT_NE(parsed.error().message.find("version 77"), std::string::npos);
}

TEST(Wire, UnknownKind) {
  for (int kind = 0; kind < 256; ++kind) {
    if (kind >= 1 && kind <= static_cast<int>(std::variant_size_v<WireMessage>)) continue;
    EXPECT_FALSE(parse_message(forged(wire::Ping{1}, 4, static_cast<uint8_t>(kind))));
  }
}

TEST(Wire, KindOfAnotherLength) {
  EXPECT_FALSE(parse_message(forged(wire::Ping{1}, 4, uint8_t{1})));
  EXPECT_FALSE(parse_message(forged(wire::Ping{1}, 5, uint8_t{23})));
  EXPECT_FALSE(parse_message(forged(wire::Ping{1}, 6, uint16_t{1})));
}

TEST(Wire, StatusOutOfRange) {
  for (int status = 2; status < 256; ++status) {
    EXPECT_FALSE(parse_message(forged(wire::Reply{}, 32, static_cast<uint8_t>(status))));
    EXPECT_FALSE(parse_message(forged(wire::PushAnswer{}, 16, static_cast<uint8_t>(status))));
  }
}

TEST(Wire, Garbage) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    Bytes bytes(random() % 128);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (i % 2 == 0 && bytes.size() > 8) {
      const Bytes start = encode(wire::Goodbye{});
      std::memcpy(bytes.data(), start.data(), 4);
    }
    EXPECT_FALSE(parse_message(bytes));
  }
}

}  // namespace
}  // namespace foreload
