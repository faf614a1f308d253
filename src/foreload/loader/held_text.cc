// SPDX-License-Identifier: Apache-2.0
#include "foreload/loader/held_text.h"

#include <bit>

namespace foreload {
namespace {

class BitWriter {
 public:
  explicit BitWriter(std::string& text) : text_(text) {}
  void put(bool bit) {
    if (used_ == 0) text_ += '\0';
    if (bit) text_.back() = static_cast<char>(static_cast<uint8_t>(text_.back()) | 1u << used_);
    used_ = (used_ + 1) % 8;
  }
  void put(uint64_t value, unsigned bits) {
    for (unsigned i = 0; i < bits; ++i) put((value >> i & 1) != 0);
  }

 private:
  std::string& text_;
  unsigned used_ = 0;  // bits of the last byte
};

// Says nothing more once the text is over; see ok().
class BitReader {
 public:
  explicit BitReader(std::string_view text) : text_(text) {}
  bool get() {
    if (at_ / 8 >= text_.size()) return over_ = true;
    const bool bit = (static_cast<uint8_t>(text_[at_ / 8]) >> at_ % 8 & 1) != 0;
    ++at_;
    return bit;
  }
  uint64_t get(unsigned bits) {
    uint64_t value = 0;
    for (unsigned i = 0; i < bits; ++i) value |= uint64_t{get()} << i;
    return value;
  }
  bool ok() const { return !over_; }
  bool at_end() const { return ok() && at_ + 8 > 8 * text_.size(); }

 private:
  const std::string_view text_;
  size_t at_ = 0;
  bool over_ = false;
};

constexpr unsigned kCountBits = 64;
constexpr unsigned kParameterBits = 6;

// Close to the best for distances that are geometric with this mean.
unsigned rice_parameter(uint64_t mean) {
  return mean == 0 ? 0 : static_cast<unsigned>(std::bit_width(mean)) - 1;
}

}  // namespace

std::string held_text(const std::vector<Held>& held, size_t tiers) {
  std::string text;
  BitWriter bits(text);
  for (size_t tier = 0; tier < tiers; ++tier) {
    uint64_t count = 0, last = 0;
    for (const Held& copy : held) {
      if (copy.tier != tier) continue;
      ++count;
      last = copy.sample;
    }
    bits.put(count, kCountBits);
    if (count == 0) continue;
    const unsigned parameter = rice_parameter((last + 1 - count) / count);
    bits.put(parameter, kParameterBits);
    uint64_t next = 0;  // the lowest number that is still possible
    for (const Held& copy : held) {
      if (copy.tier != tier) continue;
      const uint64_t skipped = copy.sample - next;
      for (uint64_t i = skipped >> parameter; i > 0; --i) bits.put(true);
      bits.put(false);
      bits.put(skipped, parameter);
      next = copy.sample + 1;
    }
  }
  return text;
}

bool read_held_text(std::string_view text, uint32_t rank, size_t tiers, uint64_t samples,
                    std::vector<Held>& held) {
  BitReader bits(text);
  for (uint32_t tier = 0; tier < tiers; ++tier) {
    const uint64_t count = bits.get(kCountBits);
    if (!bits.ok() || count > samples) return false;
    if (count == 0) continue;
    const auto parameter = static_cast<unsigned>(bits.get(kParameterBits));
    uint64_t next = 0;
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t high = 0;
      while (bits.ok() && bits.get()) ++high;
      const uint64_t low = bits.get(parameter);
      if (!bits.ok() || high > samples >> parameter || low >= samples - next) return false;
      const uint64_t skipped = high << parameter | low;
      if (skipped >= samples - next) return false;
      held.push_back({next + skipped, rank, tier});
      next += skipped + 1;
    }
  }
  return bits.at_end();
}

}  // namespace foreload
