// SPDX-License-Identifier: Apache-2.0
#include "foreload/decode/jpeg_progressive.h"

#include <algorithm>
#include <bit>

namespace foreload {
namespace {

// Bits from `first` to `last`, both included.
FORELOAD_INLINE uint64_t bits_between(unsigned first, unsigned last) {
  return (~uint64_t{0} >> (63 - last)) & (~uint64_t{0} << first);
}

// How many bits are set; compilers call a function for it where the processor may be an old one.
FORELOAD_INLINE unsigned count_of(uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
  return static_cast<unsigned>(bits * 0x0101010101010101u >> 56);
}

// One more bit of each of these coefficients, in the order of the zigzag. Without a branch for the
// bit, which nobody can predict.
template <bool kWanted>
FORELOAD_INLINE void refine_used(JpegBits& r, uint64_t used, int bit, int16_t* block) {
  if constexpr (!kWanted) {
    if (used == 0) return;
    unsigned count = count_of(used);
    r.refill();
    if (count > 32) {
      r.drop(32);
      r.refill();
      count -= 32;
    }
    return r.drop(count);
  }
  for (; used != 0; used &= used - 1) {
    r.refill();
    const int add = -static_cast<int>(r.take(1));
    int16_t& value = block[kNaturalPlaces[static_cast<unsigned>(std::countr_zero(used))]];
    const int sign = value >> 15;
    value = static_cast<int16_t>(value + (((bit ^ sign) - sign) & add));
  }
}

}  // namespace

// A symbol of a table with its value. `zeros` is kEndOfBlock for the end of a block, whose value is
// the size of the number of blocks, and kNoSymbol where there is none.
struct ProgressiveReader::Symbol {
  static constexpr unsigned kNoSymbol = 255;
  unsigned zeros;
  int value;

  FORELOAD_INLINE static Symbol take(const HuffmanTable& table, JpegBits& r) {
    r.refill();
    const HuffmanTable::Entry entry = table.entries_[r.peek(HuffmanTable::kLookup)];
    if (entry.drop < HuffmanTable::kPartial) [[likely]] {
      r.drop(entry.drop);
      return {entry.zeros, entry.value};
    }
    if (entry.drop > HuffmanTable::kPartial) {
      r.drop(entry.drop % HuffmanTable::kPartial);
      return {entry.zeros, r.take_value(static_cast<unsigned>(entry.value))};
    }
    const int symbol = table.take_long_symbol(r);
    if (symbol < 0) return {kNoSymbol, 0};
    const unsigned size = static_cast<unsigned>(symbol) & 15;
    const unsigned zeros = static_cast<unsigned>(symbol) >> 4;
    if (size == 0 && zeros < 15) return {HuffmanTable::kEndOfBlock, static_cast<int>(zeros)};
    return {zeros, r.take_value(size)};
  }
  bool ends_block() const { return zeros == HuffmanTable::kEndOfBlock; }
  // REQUIRES: ends_block().
  FORELOAD_INLINE uint32_t blocks_behind(JpegBits& r) const {
    const auto size = static_cast<unsigned>(value);
    return (1u << size) - 1 + (size > 0 ? r.take(size) : 0);
  }
};

bool ProgressiveReader::read_dc(const HuffmanTable& table, unsigned low, int& before,
                                int16_t* block) {
  // The symbol of no difference looks like the end of a block, and has the value 0 too.
  const Symbol symbol = Symbol::take(table, bits_);
  if (symbol.zeros == Symbol::kNoSymbol || bits_.overdrawn()) return false;
  if (__builtin_add_overflow(before, symbol.value, &before)) return false;
  block[0] = static_cast<int16_t>(static_cast<uint32_t>(before) << low);
  return true;
}

bool ProgressiveReader::refine_dc(unsigned low, int16_t* block) {
  bits_.refill();
  if (bits_.take(1) != 0) block[0] = static_cast<int16_t>(block[0] | 1 << low);
  return !bits_.overdrawn();
}

template <bool kWanted>
bool ProgressiveReader::read_some(const HuffmanTable& table, const ProgressiveBand& band,
                                  size_t count, int16_t* blocks, uint64_t* used) {
  JpegBits r = bits_;  // in registers
  for (size_t i = 0; i < count; ++i) {
    if (blocks_to_pass_ > 0) {
      const auto passed = std::min<size_t>(blocks_to_pass_, count - i);
      blocks_to_pass_ -= static_cast<uint32_t>(passed);
      i += passed - 1;
      continue;
    }
    int16_t* const block = blocks + 64 * i;
    uint64_t found = 0;
    for (unsigned k = band.first; k <= band.last; ++k) {
      const Symbol symbol = Symbol::take(table, r);
      if (symbol.ends_block()) {
        blocks_to_pass_ = symbol.blocks_behind(r);
        break;
      }
      k += symbol.zeros;
      if (k > band.last) return false;
      if (symbol.value == 0) continue;  // sixteen zeros
      if constexpr (kWanted) {
        block[kNaturalPlaces[k]] =
            static_cast<int16_t>(static_cast<uint32_t>(symbol.value) << band.low);
      }
      found |= uint64_t{1} << k;
    }
    used[i] |= found;
  }
  bits_ = r;
  return !r.overdrawn();
}

template <bool kWanted>
bool ProgressiveReader::refine_some(const HuffmanTable& table, const ProgressiveBand& band,
                                    size_t count, int16_t* blocks, uint64_t* used) {
  const int bit = 1 << band.low;
  const uint64_t all = bits_between(band.first, band.last);
  JpegBits r = bits_;  // in registers
  for (size_t i = 0; i < count; ++i) {
    int16_t* const block = blocks + 64 * i;
    if (blocks_to_pass_ > 0) {
      --blocks_to_pass_;
      refine_used<kWanted>(r, used[i] & all, bit, block);
      continue;
    }
    uint64_t found = 0;
    uint64_t rest = all;  // of the band
    while (rest != 0) {
      const Symbol symbol = Symbol::take(table, r);
      if (symbol.ends_block()) {
        blocks_to_pass_ = symbol.blocks_behind(r);
        refine_used<kWanted>(r, used[i] & rest, bit, block);
        break;
      }
      if (symbol.zeros > 15 || symbol.value < -1 || symbol.value > 1) return false;
      // The new one comes behind zeros that stay; what is there already gets its bit on the way.
      uint64_t free = rest & ~used[i];
      for (unsigned zeros = symbol.zeros; zeros > 0; --zeros) free &= free - 1;
      if (free == 0) {
        if (symbol.value != 0) return false;
        refine_used<kWanted>(r, used[i] & rest, bit, block);
        break;
      }
      const uint64_t place = free & -free;
      const uint64_t passed = rest & (place - 1);
      rest &= ~(passed | place);
      refine_used<kWanted>(r, used[i] & passed, bit, block);
      if (symbol.value == 0) continue;
      if constexpr (kWanted) {
        block[kNaturalPlaces[static_cast<unsigned>(std::countr_zero(place))]] =
            static_cast<int16_t>(symbol.value * bit);
      }
      found |= place;
    }
    used[i] |= found;
  }
  bits_ = r;
  return !r.overdrawn();
}

bool ProgressiveReader::read_ac(const HuffmanTable& table, const ProgressiveBand& band,
                                const BlockRun& run) {
  return run.wanted ? read_some<true>(table, band, run.count, run.blocks, run.used)
                    : read_some<false>(table, band, run.count, run.blocks, run.used);
}

bool ProgressiveReader::refine_ac(const HuffmanTable& table, const ProgressiveBand& band,
                                  const BlockRun& run) {
  return run.wanted ? refine_some<true>(table, band, run.count, run.blocks, run.used)
                    : refine_some<false>(table, band, run.count, run.blocks, run.used);
}

bool ProgressiveReader::restart(unsigned number) {
  if (!at_end()) return false;
  const std::span<const uint8_t> rest = bits_.rest();
  if (rest.size() < 2 || rest[1] != 0xD0 + number) return false;
  bits_ = JpegBits(rest.subspan(2));
  return true;
}

}  // namespace foreload
