// SPDX-License-Identifier: Apache-2.0
//
// Huffman decoding of plain sequential JPEG files, two thirds of the time a photo takes, about a
// third faster than libjpeg-turbo's own: code, run and value of most coefficients come out of one
// look-up. It takes the place of libjpeg's decoder for one block group (MCU) after another and
// leaves all else to libjpeg.
//
// It knows only intact data. Whatever is out of the ordinary (an invalid code, a marker or the end
// of the data too early) it reports instead of handling; the caller then decodes the image anew
// without it, so that damaged files look as libjpeg makes them look. For one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "foreload/decode/jpeg_bits.h"

namespace foreload {

// The tables of one file; building them is skipped where the next file has the same.
class HuffmanTable {
 public:
  // Lengths and symbols as in the file: bits[n] codes of length n, for n from 1 to 16.
  void assign(std::span<const uint8_t, 17> bits, std::span<const uint8_t, 256> symbols);
  // For HuffmanReader::read_beginning(); does nothing the second time.
  void prepare_skipping();

 private:
  friend class HuffmanReader;
  friend class ProgressiveReader;
  // The next kLookup bits say: how many bits to drop, how many zeros to pass (64: the block ends,
  // and the value is the symbol's other half), and the value after them. Where the value's bits are
  // not all among them, kPartial is added to `drop` and `value` says how many follow; where not
  // even the code is, `drop` is kPartial. Small, so that all tables stay in the first cache beside
  // the pixels.
  struct Entry {
    int16_t value;
    uint8_t zeros;
    uint8_t drop;
  };
  static constexpr uint8_t kPartial = 0x80;
  static constexpr uint8_t kEndOfBlock = 64;
  static constexpr unsigned kLookup = 10;

  // Where values are of no interest: what all the whole symbols among the next kSkipLookup bits
  // take and pass, up to the end of a block. `drop` is 0 where there is not even one.
  struct Skip {
    uint8_t passed;  // coefficients; kEnds is added where the block ends behind them
    uint8_t drop;
  };
  static constexpr uint8_t kEnds = 0x80;
  static constexpr unsigned kSkipLookup = 11;

  // Takes a symbol whose code is longer than kLookup bits; -1 for none.
  FORELOAD_INLINE int take_long_symbol(JpegBits& bits) const {
    for (unsigned length = kLookup + 1; length <= 16; ++length) {
      const uint32_t code = bits.peek(length);
      if (code >= first_beyond_[length]) continue;
      const int64_t index = int64_t{code} + offset_[length];
      if (index < 0 || index >= 256) return -1;
      bits.drop(length);
      return symbols_[static_cast<size_t>(index)];
    }
    return -1;
  }

  std::array<Entry, 1 << kLookup> entries_{};
  std::array<Skip, 1 << kSkipLookup> skips_{};
  bool skips_made_ = false;
  std::array<uint32_t, 18> first_beyond_{};  // the first code of a length that is too large for it
  std::array<int32_t, 18> offset_{};         // from a code of a length to its symbol
  std::array<uint8_t, 17> bits_{};
  std::array<uint8_t, 256> symbols_{};
};

struct HuffmanTables {
  std::array<HuffmanTable, 4> dc;
  std::array<HuffmanTable, 4> ac;
};

// Reads blocks of 64 coefficients one after another.
class HuffmanReader {
 public:
  HuffmanReader() = default;
  // `data`: entropy-coded, with whatever follows it.
  explicit HuffmanReader(std::span<const uint8_t> data) : bits_(data) {}

  // What has not been looked at yet; no marker lies before it.
  std::span<const uint8_t> rest() const { return bits_.rest(); }

  // Writes the coefficients that are not zero to their natural places and the difference to the
  // earlier DC coefficient to the first. Returns false for data out of the ordinary.
  bool read_block(const HuffmanTable& dc, const HuffmanTable& ac, int16_t* block);
  // The same for the first `wanted` coefficients of the zigzag, one at least, and quicker; the
  // others are written or not. REQUIRES: `ac` is prepared for skipping.
  bool read_beginning(const HuffmanTable& dc, const HuffmanTable& ac, unsigned wanted,
                      int16_t* block);

 private:
  template <bool kWhole>
  bool read(const HuffmanTable& dc, const HuffmanTable& ac, unsigned wanted, int16_t* block);

  JpegBits bits_;
};

}  // namespace foreload
