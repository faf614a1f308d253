// SPDX-License-Identifier: Apache-2.0
//
// The bits of entropy-coded JPEG data, many at a time. For jpeg_huffman.cc and jpeg_progressive.cc,
// which keep a copy in registers while they decode. For one thread.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

// A call that is left would force the reader's state out of registers, which costs a tenth of the
// whole time.
#define FORELOAD_INLINE [[gnu::always_inline]] inline

namespace foreload {

class JpegBits {
 public:
  JpegBits() = default;
  // `data`: entropy-coded, with whatever follows it.
  explicit JpegBits(std::span<const uint8_t> data)
      : next_(data.data()), end_(data.data() + data.size()) {}

  // Afterwards there are 32 bits at least (the longest code and value have 31), or all there are
  // before the next marker.
  FORELOAD_INLINE void refill() {
    if (have_ >= 32) [[likely]]
      return;
    if (end_ - next_ >= 8 && !at_marker_) [[likely]] {
      uint64_t word;
      std::memcpy(&word, next_, sizeof word);
      if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
      const bool has_ff = ((~word - 0x0101010101010101u) & word & 0x8080808080808080u) != 0;
      if (!has_ff) [[likely]] {
        window_ |= word >> have_;
        const int bytes = (63 - have_) / 8;
        next_ += bytes;
        have_ += bytes * 8;
        // Bits of a byte that is not counted yet are there already, and come again as the same.
        return;
      }
    }
    refill_slowly();
  }
  // REQUIRES: 1 <= bits <= 32.
  FORELOAD_INLINE uint32_t peek(unsigned bits) const {
    return static_cast<uint32_t>(window_ >> (64 - bits));
  }
  FORELOAD_INLINE void drop(unsigned bits) {
    window_ <<= bits;
    have_ -= static_cast<int>(bits);
  }
  FORELOAD_INLINE uint32_t take(unsigned bits) {
    const uint32_t value = peek(bits);
    drop(bits);
    return value;
  }
  // A value of `size` bits; see signed_value().
  FORELOAD_INLINE int take_value(unsigned size);

  // More bits were dropped than there were.
  bool overdrawn() const { return have_ < 0; }
  // Whether the rest of a byte at most lies before the next marker.
  bool ends_here() {
    refill_slowly();
    return at_marker_ && 0 <= have_ && have_ < 8;
  }
  // What has not been taken into the window yet; no marker lies before it.
  std::span<const uint8_t> rest() const { return {next_, end_}; }

 private:
  FORELOAD_INLINE void refill_slowly() {
    if (have_ < 0) return;
    // The quick way may have left bits of the next byte behind the counted ones.
    if (have_ < 64) window_ &= have_ == 0 ? 0 : ~uint64_t{0} << (64 - have_);
    while (have_ <= 56 && !at_marker_ && next_ < end_) {
      const uint8_t byte = *next_;
      if (byte == 0xFF) {
        if (end_ - next_ < 2 || next_[1] != 0) {
          at_marker_ = true;
          return;
        }
        ++next_;
      }
      ++next_;
      window_ |= uint64_t{byte} << (56 - have_);
      have_ += 8;
    }
  }

  const uint8_t* next_ = nullptr;
  const uint8_t* end_ = nullptr;
  uint64_t window_ = 0;  // the next bits, highest first; zeros after them
  int have_ = 0;         // how many; below 0 once more were dropped than there were
  bool at_marker_ = false;
};

// Numbers of `size` bits stand for those whose highest bit is set, and for their negatives.
constexpr int signed_value(uint32_t bits, unsigned size) {
  const bool negative = size > 0 && (bits >> (size - 1)) == 0;
  return static_cast<int>(bits) - (negative ? (1 << size) - 1 : 0);
}

FORELOAD_INLINE int JpegBits::take_value(unsigned size) {
  return size == 0 ? 0 : signed_value(take(size), size);
}

// Natural place of the n-th coefficient of the zigzag.
inline constexpr std::array<uint8_t, 64> kNaturalPlaces = [] {
  std::array<uint8_t, 64> places{};
  int x = 0, y = 0;
  for (size_t i = 0; i < 64; ++i) {
    places[i] = static_cast<uint8_t>(y * 8 + x);
    const bool up = (x + y) % 2 == 0;
    if (up ? x == 7 : y == 7) {
      (up ? y : x) += 1;
    } else if (up ? y == 0 : x == 0) {
      (up ? x : y) += 1;
    } else {
      x += up ? 1 : -1;
      y += up ? -1 : 1;
    }
  }
  return places;
}();
static_assert(kNaturalPlaces[1] == 1 && kNaturalPlaces[2] == 8 && kNaturalPlaces[63] == 63);

}  // namespace foreload
