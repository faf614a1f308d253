// SPDX-License-Identifier: Apache-2.0
//
// XXH3 checksums and digests. A checksum (64 bits) guards bytes that were stored or sent; a digest
// (128 bits) says that two things, two plans for instance, are the same. Neither is a defence
// against somebody who wants to forge one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace foreload {

uint64_t checksum64(std::span<const std::byte> bytes);

// The checksum of bytes that come in pieces.
class Checksum64 {
 public:
  Checksum64();
  ~Checksum64();
  Checksum64(const Checksum64&) = delete;
  Checksum64& operator=(const Checksum64&) = delete;

  void add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

struct Digest {
  uint64_t high = 0;
  uint64_t low = 0;

  std::string hex() const;  // 32 digits
  friend bool operator==(const Digest&, const Digest&) = default;
};

Digest digest_of(std::string_view bytes);

// Collects values and gives their digest: that of all bytes one behind another. The result depends
// on the bytes and their order alone, so whoever adds something of variable length adds the length
// first (add(span) and add(string) do).
class Digester {
 public:
  Digester();
  ~Digester();
  Digester(Digester&&) noexcept;
  Digester& operator=(Digester&&) noexcept;

  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  Digester& add(T value) {
    return add_raw(&value, sizeof value);
  }
  template <class T>
    requires std::is_arithmetic_v<T>
  Digester& add(std::span<const T> values) {
    return add(static_cast<uint64_t>(values.size())).add_raw(values.data(), values.size_bytes());
  }
  Digester& add(std::string_view text) {
    return add(static_cast<uint64_t>(text.size())).add_raw(text.data(), text.size());
  }
  Digest digest() const;

 private:
  Digester& add_raw(const void* data, size_t size);

  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace foreload
