// SPDX-License-Identifier: Apache-2.0
//
// What a rank knows of single samples, in little memory: a job has millions of samples, and in the
// simulator thousands of ranks. SparseStates is for what few samples have at a time, SampleBits for
// what any may have; neither takes memory for samples that nobody touched.
//
// For one thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "foreload/base/random.h"
#include "foreload/base/sparse_array.h"

namespace foreload {

// A value of one byte by sample; those that have Value{} take no memory. An open hash table, of
// which nobody can see the order. REQUIRES: samples below 2^56 - 1.
template <class Value>
class SparseStates {
 public:
  class Reference {
   public:
    Reference(SparseStates& all, uint64_t sample) : all_(all), sample_(sample) {}
    operator Value() const { return all_.get(sample_); }
    Reference& operator=(Value value) {
      all_.set(sample_, value);
      return *this;
    }

   private:
    SparseStates& all_;
    uint64_t sample_;
  };

  Value operator[](uint64_t sample) const { return get(sample); }
  Reference operator[](uint64_t sample) { return {*this, sample}; }

  // Samples that have `value` have Value{} from now on.
  void forget(Value value) {
    const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(entries_.size()));
    used_ = 0;
    for (const Entry& entry : old)
      if (entry.sample != kNobody && entry.value != value) set(entry.sample, entry.value);
  }

 private:
  static_assert(sizeof(Value) == 1);
  static constexpr uint64_t kNobody = (uint64_t{1} << 56) - 1;
  struct Entry {
    uint64_t sample : 56 = kNobody;
    Value value : 8 = {};
  };

  uint64_t home(uint64_t sample) const { return mix64(sample) & (entries_.size() - 1); }
  uint64_t next(uint64_t i) const { return (i + 1) & (entries_.size() - 1); }
  // Where the sample is, or would be. REQUIRES: there is a free entry.
  uint64_t find(uint64_t sample) const {
    uint64_t i = home(sample);
    while (entries_[i].sample != sample && entries_[i].sample != kNobody) i = next(i);
    return i;
  }

  Value get(uint64_t sample) const { return used_ == 0 ? Value{} : entries_[find(sample)].value; }
  void set(uint64_t sample, Value value) {
    if (value == Value{}) return erase(sample);
    if (2 * (used_ + 1) > entries_.size()) grow();
    Entry& entry = entries_[find(sample)];
    if (entry.sample == kNobody) ++used_;
    entry = {sample & kNobody, value};
  }
  void erase(uint64_t sample) {
    if (used_ == 0) return;
    uint64_t hole = find(sample);
    if (entries_[hole].sample == kNobody) return;
    --used_;
    // Entries behind it that could not have their home move up, so that none is cut off from it.
    for (uint64_t i = next(hole); entries_[i].sample != kNobody; i = next(i)) {
      const uint64_t from_home = (i - home(entries_[i].sample)) & (entries_.size() - 1);
      if (from_home < ((i - hole) & (entries_.size() - 1))) continue;
      entries_[hole] = entries_[i];
      hole = i;
    }
    entries_[hole] = {};
  }
  void grow() {
    const std::vector<Entry> old =
        std::exchange(entries_, std::vector<Entry>(entries_.empty() ? 16 : 2 * entries_.size()));
    for (const Entry& entry : old)
      if (entry.sample != kNobody) entries_[find(entry.sample)] = entry;
  }

  std::vector<Entry> entries_;  // a power of two, at most half of it used
  uint64_t used_ = 0;
};

// A few bits by sample, side by side.
class SampleBits {
 public:
  SampleBits(uint64_t samples, uint32_t width)
      : width_(width), words_((samples * width + 63) / 64 + 1) {}

  // Bit 0 is the lowest. REQUIRES: a width of at most 32.
  uint32_t operator[](uint64_t sample) const {
    const uint64_t at = sample * width_;
    uint64_t bits = words_[at / 64] >> at % 64;
    if (at % 64 + width_ > 64) bits |= words_[at / 64 + 1] << (64 - at % 64);
    return static_cast<uint32_t>(bits & ((uint64_t{1} << width_) - 1));
  }
  bool test(uint64_t sample, uint32_t bit) const {
    const uint64_t at = sample * width_ + bit;
    return (words_[at / 64] >> at % 64 & 1) != 0;
  }
  void set(uint64_t sample, uint32_t bit) {
    const uint64_t at = sample * width_ + bit;
    words_.touch(at / 64) |= uint64_t{1} << at % 64;
  }
  void reset(uint64_t sample, uint32_t bit) {
    const uint64_t at = sample * width_ + bit;
    if (test(sample, bit)) words_.touch(at / 64) &= ~(uint64_t{1} << at % 64);
  }

  uint64_t bytes() const { return words_.bytes(); }

 private:
  uint32_t width_;
  SparseArray<uint64_t> words_;
};

}  // namespace foreload
