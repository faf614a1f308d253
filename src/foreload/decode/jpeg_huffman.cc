// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/jpeg_huffman.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace foreload {

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
        if (entry.zeros == kEndOfBlock) {
          entry.value = static_cast<int16_t>(run);
        } else if (whole) {
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

template <bool kWhole>
FORELOAD_INLINE bool HuffmanReader::read(const HuffmanTable& dc, const HuffmanTable& ac,
                                         unsigned wanted, int16_t* block) {
  using Entry = HuffmanTable::Entry;
  constexpr uint8_t kPartial = HuffmanTable::kPartial;
  constexpr uint8_t kEndOfBlock = HuffmanTable::kEndOfBlock;
  JpegBits r = bits_;  // in registers
  r.refill();
  const Entry first = dc.entries_[r.peek(HuffmanTable::kLookup)];
  if (first.drop < kPartial) {
    r.drop(first.drop);
    block[0] = first.value;
  } else {
    auto size = static_cast<unsigned>(first.value);
    if (first.drop == kPartial) {
      const int symbol = dc.take_long_symbol(r);
      if (symbol < 0) return false;
      size = static_cast<unsigned>(symbol) & 15;
    }
    r.drop(first.drop % kPartial);
    block[0] = static_cast<int16_t>(r.take_value(size));
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
      const int symbol = ac.take_long_symbol(r);
      if (symbol < 0) return false;
      size = static_cast<unsigned>(symbol) & 15;
      zeros = static_cast<unsigned>(symbol) >> 4;
      if (size == 0 && zeros < 15) break;
    }
    r.drop(entry.drop % kPartial);
    k += zeros;
    if (k > 63) return false;
    block[kNaturalPlaces[k]] = static_cast<int16_t>(r.take_value(size));
  }
  if (r.overdrawn()) return false;
  bits_ = r;
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
