// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/jpeg_huffman.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

// A call that is left would force the reader's state out of registers, which costs a tenth of the
// whole time.
#define FORELOAD_INLINE [[gnu::always_inline]] inline

namespace foreload {
namespace {

constexpr uint8_t kEndOfBlock = 64;

// Natural place of the n-th coefficient of the zigzag.
constexpr std::array<uint8_t, 64> kNaturalPlaces = [] {
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

// Numbers of `size` bits stand for those whose highest bit is set, and for their negatives.
constexpr int signed_value(uint32_t bits, unsigned size) {
  const bool negative = size > 0 && (bits >> (size - 1)) == 0;
  return static_cast<int>(bits) - (negative ? (1 << size) - 1 : 0);
}

}  // namespace

void HuffmanTable::assign(std::span<const uint8_t, 17> bits,
                          std::span<const uint8_t, 256> symbols) {
  if (std::ranges::equal(bits, bits_) && std::ranges::equal(symbols, symbols_)) return;
  std::ranges::copy(bits, bits_.begin());
  std::ranges::copy(symbols, symbols_.begin());
  entries_.fill({.value = 0, .zeros = 0, .drop = kPartial});
  uint32_t code = 0;
  size_t index = 0;
  for (unsigned length = 1; length <= 16; ++length) {
    offset_[length] = static_cast<int32_t>(index) - static_cast<int32_t>(code);
    for (unsigned i = 0; i < bits[length]; ++i, ++code, ++index) {
      if (length > kLookup || index >= symbols.size()) continue;
      const unsigned left = kLookup - length;
      const unsigned size = symbols[index] & 15, run = symbols[index] >> 4;
      const bool whole = size <= left;
      Entry entry{.value = static_cast<int16_t>(size),
                  .zeros = static_cast<uint8_t>(size == 0 && run < 15 ? kEndOfBlock : run),
                  .drop = static_cast<uint8_t>(whole ? length + size : length | kPartial)};
      for (uint32_t rest = 0; rest < 1u << left; ++rest) {
        if (whole) {
          entry.value = static_cast<int16_t>(signed_value(rest >> (left - size), size));
        }
        if (const size_t at = (code << left | rest); at < entries_.size()) entries_[at] = entry;
      }
    }
    first_beyond_[length] = code;
    code <<= 1;
  }
  skips_made_ = false;
}

void HuffmanTable::prepare_skipping() {
  if (std::exchange(skips_made_, true)) return;
  for (uint32_t bits = 0; bits < skips_.size(); ++bits) {
    Skip skip{.passed = 0, .drop = 0};
    while (skip.drop < kSkipLookup) {
      // What is looked at may end inside the next symbol: zeros stand for what is not known.
      const uint32_t rest = bits << skip.drop & ((1u << kSkipLookup) - 1);
      const Entry& entry = entries_[rest >> (kSkipLookup - kLookup)];
      if (entry.drop >= kPartial) break;
      const unsigned drop = skip.drop + entry.drop;
      if (drop > kSkipLookup || skip.passed > 64) break;
      skip.drop = static_cast<uint8_t>(drop);
      if (entry.zeros == kEndOfBlock) {
        skip.passed |= kEnds;
        break;
      }
      skip.passed = static_cast<uint8_t>(skip.passed + entry.zeros + 1);
    }
    skips_[bits] = skip;
  }
}

FORELOAD_INLINE void HuffmanReader::refill_slowly() {
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

FORELOAD_INLINE void HuffmanReader::refill() {
  // The longest code and value have 31 bits.
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

FORELOAD_INLINE int HuffmanReader::value_of(unsigned size) {
  if (size == 0) return 0;
  const auto bits = static_cast<uint32_t>(peek(size));
  drop(size);
  return signed_value(bits, size);
}

FORELOAD_INLINE int HuffmanReader::long_symbol(const HuffmanTable& table) {
  for (unsigned length = HuffmanTable::kLookup + 1; length <= 16; ++length) {
    const auto code = static_cast<uint32_t>(peek(length));
    if (code >= table.first_beyond_[length]) continue;
    const int64_t index = int64_t{code} + table.offset_[length];
    if (index < 0 || index >= 256) return -1;
    drop(length);
    return table.symbols_[static_cast<size_t>(index)];
  }
  return -1;
}

template <bool kWhole>
FORELOAD_INLINE bool HuffmanReader::read(const HuffmanTable& dc, const HuffmanTable& ac,
                                         unsigned wanted, int16_t* block) {
  using Entry = HuffmanTable::Entry;
  constexpr uint8_t kPartial = HuffmanTable::kPartial;
  HuffmanReader r = *this;  // in registers
  r.refill();
  const Entry first = dc.entries_[r.peek(HuffmanTable::kLookup)];
  if (first.drop < kPartial) {
    r.drop(first.drop);
    block[0] = first.value;
  } else {
    auto size = static_cast<unsigned>(first.value);
    if (first.drop == kPartial) {
      const int symbol = r.long_symbol(dc);
      if (symbol < 0) return false;
      size = static_cast<unsigned>(symbol) & 15;
    }
    r.drop(first.drop % kPartial);
    block[0] = static_cast<int16_t>(r.value_of(size));
  }
  for (unsigned k = 1; k < 64; ++k) {
    r.refill();
    if (!kWhole && k >= wanted) {
      const HuffmanTable::Skip skip = ac.skips_[r.peek(HuffmanTable::kSkipLookup)];
      const bool ends = skip.passed >= HuffmanTable::kEnds;
      const unsigned next = k + skip.passed % HuffmanTable::kEnds;
      // What comes behind the last coefficient is of the next block.
      if (skip.drop > 0 && (next < 64 || (next == 64 && !ends))) {
        r.drop(skip.drop);
        if (ends) break;
        k = next - 1;
        continue;
      }
    }
    const Entry entry = ac.entries_[r.peek(HuffmanTable::kLookup)];
    if (entry.drop < kPartial) [[likely]] {
      r.drop(entry.drop);
      k += entry.zeros;
      if (k > 63) {
        if (entry.zeros == kEndOfBlock) break;
        return false;
      }
      block[kNaturalPlaces[k]] = entry.value;
      continue;
    }
    unsigned zeros = entry.zeros;
    auto size = static_cast<unsigned>(entry.value);
    if (entry.drop == kPartial) {
      const int symbol = r.long_symbol(ac);
      if (symbol < 0) return false;
      size = static_cast<unsigned>(symbol) & 15;
      zeros = static_cast<unsigned>(symbol) >> 4;
      if (size == 0 && zeros < 15) break;
    }
    r.drop(entry.drop % kPartial);
    k += zeros;
    if (k > 63) return false;
    block[kNaturalPlaces[k]] = static_cast<int16_t>(r.value_of(size));
  }
  if (r.have_ < 0) return false;
  *this = r;
  return true;
}

bool HuffmanReader::read_block(const HuffmanTable& dc, const HuffmanTable& ac, int16_t* block) {
  return read<true>(dc, ac, 64, block);
}

bool HuffmanReader::read_beginning(const HuffmanTable& dc, const HuffmanTable& ac, unsigned wanted,
                                   int16_t* block) {
  return read<false>(dc, ac, wanted, block);
}

}  // namespace foreload
