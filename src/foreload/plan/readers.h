// SPDX-License-Identifier: Apache-2.0
//
// Who reads each sample in each epoch: the table behind access counts and placement. One small
// integer per sample and epoch (one, two or four bytes, as the number of ranks needs), which for
// many ranks is far less than a matrix of counts.
//
// Padding makes a few samples be read a second time in an epoch; those reads are kept in a list
// beside the table. Immutable once built: any thread may use it.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "foreload/base/progress.h"
#include "foreload/base/result.h"
#include "foreload/plan/order.h"
#include "foreload/plan/sharding.h"

namespace foreload {

// A read that the table has no room for: padding, or a repeat in a given order.
struct ExtraRead {
  uint64_t sample;
  uint32_t epoch;  // row of the table
  uint32_t rank;
  friend auto operator<=>(const ExtraRead&, const ExtraRead&) = default;
};

// How many times one rank reads a sample over all epochs of a table.
struct RankCount {
  uint32_t rank;
  uint32_t count;
};

class ReaderTable {
 public:
  struct Span {
    uint64_t first_epoch = 0;
    uint32_t epochs = 1;
    uint64_t start = 0;  // positions of the first epoch already consumed
  };

  // Computes `span.epochs` rows, in parallel by epoch. Fails with `invalid` if an epoch is not
  // known, `cancelled` if progress says so.
  static Result<ReaderTable> build(const Order& order, uint32_t ranks, Pad pad, Span span,
                                   unsigned threads, const Progress& progress = {});
  // What build() will need.
  static uint64_t bytes(uint64_t samples, uint32_t ranks, uint32_t epochs);

  uint64_t samples() const { return samples_; }
  uint32_t ranks() const { return ranks_; }
  uint32_t epochs() const { return epochs_; }
  // The rank that reads the sample in that row's epoch, or ranks() if nobody does.
  uint32_t reader(uint32_t epoch, uint64_t sample) const;
  std::span<const ExtraRead> extra_reads() const { return extra_; }  // sorted
  std::span<const ExtraRead> extra_reads(uint64_t sample) const;

  // Counts of one sample at a time. Needs memory of O(ranks + epochs); one per thread. Walking
  // samples in ascending order is fast, since neighbours are fetched together.
  class Tally {
   public:
    explicit Tally(const ReaderTable& table);
    // Ranks that read the sample, each once, in order of first read. Valid until the next call.
    std::span<const RankCount> of(uint64_t sample);

    // About the sample last tallied:
    // its reader in a row's epoch (padding apart), ranks() if nobody;
    uint32_t reader(uint32_t epoch) const { return row_[epoch]; }
    // the first row in which somebody reads it, epochs() if nobody ever does;
    uint32_t first_epoch() const { return first_epoch_; }
    // in how many rows somebody does.
    uint32_t epochs_read() const { return epochs_read_; }

   private:
    // Neighbouring cells of a row share cache lines, so this many samples are fetched at once.
    static constexpr uint64_t kBlock = 64;
    void load(uint64_t first, uint64_t samples);

    const ReaderTable& table_;
    std::vector<uint32_t> cells_;  // [sample - cells_first_][epoch]
    uint64_t cells_first_ = 0;
    uint64_t cells_end_ = 0;
    const uint32_t* row_ = nullptr;  // cells of the sample last tallied
    uint32_t first_epoch_ = 0;
    uint32_t epochs_read_ = 0;
    std::vector<uint32_t> place_;  // per rank: 1 + its place in counts_, 0 if not there
    std::vector<RankCount> counts_;
  };

 private:
  // Uninitialised on purpose: the threads that fill the rows touch the memory first.
  template <class Cell>
  using Rows = std::unique_ptr<Cell[]>;

  ReaderTable() = default;

  uint64_t samples_ = 0;
  uint32_t ranks_ = 1;
  uint32_t epochs_ = 0;
  std::variant<Rows<uint8_t>, Rows<uint16_t>, Rows<uint32_t>> rows_;  // [epoch][sample]
  std::vector<ExtraRead> extra_;
};

// How often one rank reads each sample.
std::vector<uint32_t> access_counts(const ReaderTable& table, uint32_t rank);

}  // namespace foreload
