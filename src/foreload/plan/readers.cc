// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/readers.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <mutex>
#include <optional>
#include <utility>

#include "foreload/base/parallel.h"

namespace foreload {
namespace {

// Writes the epoch's readers into `cells`. A second read of a sample goes to `extra`.
template <class Cell>
void fill_row(const EpochOrder& order, const Sharding& sharding, uint32_t row,
              std::span<Cell> cells, std::vector<ExtraRead>& extra) {
  const auto nobody = static_cast<Cell>(sharding.ranks);
  std::fill(cells.begin(), cells.end(), nobody);
  std::array<uint64_t, 4096> block;
  uint32_t rank = 0;
  const uint64_t total = sharding.total();
  for (uint64_t first = 0; first < total; first += block.size()) {
    const auto ids = std::span(block).first(std::min<uint64_t>(block.size(), total - first));
    read_global_list(order, sharding, first, ids);
    for (const uint64_t id : ids) {
      if (cells[id] == nobody)
        cells[id] = static_cast<Cell>(rank);
      else
        extra.push_back({id, row, rank});
      if (++rank == sharding.ranks) rank = 0;
    }
  }
}

uint64_t cell_bytes(uint32_t ranks) {
  return ranks <= UINT8_MAX ? 1 : ranks <= UINT16_MAX ? 2 : 4;
}

}  // namespace

uint64_t ReaderTable::bytes(uint64_t samples, uint32_t ranks, uint32_t epochs) {
  return samples * epochs * cell_bytes(ranks);
}

Result<ReaderTable> ReaderTable::build(const Order& order, uint32_t ranks, Pad pad, Span span,
                                       unsigned threads, const Progress& progress) {
  ReaderTable table;
  table.samples_ = order.samples();
  table.ranks_ = ranks;
  table.epochs_ = span.epochs;
  const uint64_t cells = table.samples_ * table.epochs_;
  switch (cell_bytes(ranks)) {
    case 1:
      table.rows_ = std::make_unique_for_overwrite<uint8_t[]>(cells);
      break;
    case 2:
      table.rows_ = std::make_unique_for_overwrite<uint16_t[]>(cells);
      break;
    default:
      table.rows_ = std::make_unique_for_overwrite<uint32_t[]>(cells);
  }
  std::mutex mutex;  // guards `error` and table.extra_
  std::optional<Error> error;
  auto fill = [&](uint64_t row, unsigned) {
    auto epoch = order.epoch(span.first_epoch + row);
    if (!epoch) {
      std::lock_guard lock(mutex);
      if (!error) error = epoch.error();
      return;
    }
    const Sharding sharding{(*epoch)->size(), ranks, pad, row == 0 ? span.start : 0};
    std::vector<ExtraRead> extra;
    std::visit(
        [&](auto& rows) {
          fill_row(**epoch, sharding, static_cast<uint32_t>(row),
                   std::span(rows.get() + row * table.samples_, table.samples_), extra);
        },
        table.rows_);
    std::lock_guard lock(mutex);
    table.extra_.insert(table.extra_.end(), extra.begin(), extra.end());
  };
  if (!parallel_for(span.epochs, threads, fill, progress))
    return fail(ErrorKind::cancelled, "planning was cancelled");
  if (error) return tl::unexpected(*error);
  std::sort(table.extra_.begin(), table.extra_.end());
  return table;
}

uint32_t ReaderTable::reader(uint32_t epoch, uint64_t sample) const {
  assert(epoch < epochs_ && sample < samples_);
  return std::visit([&](const auto& rows) -> uint32_t { return rows[epoch * samples_ + sample]; },
                    rows_);
}

std::span<const ExtraRead> ReaderTable::extra_reads(uint64_t sample) const {
  if (extra_.empty()) return {};
  const auto by_sample = [](const ExtraRead& read, uint64_t wanted) {
    return read.sample < wanted;
  };
  const auto first = std::lower_bound(extra_.begin(), extra_.end(), sample, by_sample);
  auto last = first;
  while (last != extra_.end() && last->sample == sample) ++last;
  return {first, last};
}

ReaderTable::Tally::Tally(const ReaderTable& table)
    : table_(table), cells_(kBlock * table.epochs_), place_(table.ranks_ + 1) {}

void ReaderTable::Tally::load(uint64_t first, uint64_t samples) {
  cells_first_ = first;
  cells_end_ = first + samples;
  std::visit(
      [&](const auto& rows) {
        for (uint32_t epoch = 0; epoch < table_.epochs_; ++epoch) {
          const auto* row = rows.get() + epoch * table_.samples_ + first;
          for (uint64_t i = 0; i < samples; ++i) cells_[i * table_.epochs_ + epoch] = row[i];
        }
      },
      table_.rows_);
}

std::span<const RankCount> ReaderTable::Tally::of(uint64_t sample) {
  assert(sample < table_.samples_);
  if (sample < cells_first_ || sample >= cells_end_) {
    const bool walking = sample == cells_end_ || sample % kBlock == 0;
    load(sample, walking ? std::min(kBlock, table_.samples_ - sample) : 1);
  }
  row_ = cells_.data() + (sample - cells_first_) * table_.epochs_;

  for (const RankCount& entry : counts_) place_[entry.rank] = 0;
  counts_.clear();
  auto count = [this](uint32_t rank) {
    if (place_[rank] == 0) {
      counts_.push_back({rank, 0});
      place_[rank] = static_cast<uint32_t>(counts_.size());
    }
    ++counts_[place_[rank] - 1].count;
  };
  epochs_read_ = 0;
  first_epoch_ = table_.epochs_;
  for (uint32_t epoch = 0; epoch < table_.epochs_; ++epoch) {
    if (row_[epoch] == table_.ranks_) continue;
    if (epochs_read_++ == 0) first_epoch_ = epoch;
    count(row_[epoch]);
  }
  for (const ExtraRead& read : table_.extra_reads(sample)) count(read.rank);
  return counts_;
}

std::vector<uint32_t> access_counts(const ReaderTable& table, uint32_t rank) {
  std::vector<uint32_t> counts(table.samples());
  for (uint32_t epoch = 0; epoch < table.epochs(); ++epoch) {
    for (uint64_t sample = 0; sample < table.samples(); ++sample)
      counts[sample] += table.reader(epoch, sample) == rank ? 1 : 0;
  }
  for (const ExtraRead& read : table.extra_reads()) {
    if (read.rank == rank) ++counts[read.sample];
  }
  return counts;
}

}  // namespace foreload
