// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/traffic.h"

#include <algorithm>
#include <cassert>
#include <cmath>

#include "foreload/plan/holdings.h"

namespace foreload {
namespace {

uint64_t scaled(uint64_t value, double factor) {
  return static_cast<uint64_t>(std::llround(static_cast<double>(value) * factor));
}

void add_all(std::vector<Volume>& sum, const std::vector<Volume>& more) {
  for (size_t i = 0; i < sum.size(); ++i) sum[i] += more[i];
}

// What one worker counts. The sums are of integers, so the order of workers does not matter.
class Count {
 public:
  Count(const ReaderTable& table, const Sizes& sizes, const Placement& placement, uint32_t tiers,
        const std::vector<bool>& held)
      : table_(table),
        sizes_(sizes),
        placement_(placement),
        held_(held),
        tally_(table),
        unread_bytes_(table.epochs()) {
    for (auto* volumes : {&traffic_.kept, &traffic_.local, &traffic_.peer}) volumes->resize(tiers);
  }

  void sample(uint64_t sample) {
    const uint64_t size = sizes_[sample];
    const auto counts = tally_.of(sample);
    if (tally_.epochs_read() < table_.epochs()) {
      for (uint32_t epoch = 0; epoch < table_.epochs(); ++epoch) {
        if (tally_.reader(epoch) == table_.ranks()) unread_bytes_[epoch] += size;
      }
    }
    for (const RankCount& entry : counts) {
      traffic_.read.add(entry.count, size);
      if (entry.count >= traffic_.access_histogram.size())
        traffic_.access_histogram.resize(entry.count + 1);
      ++traffic_.access_histogram[entry.count];
    }
    const Owner owner = placement_.owner(sample);
    if (owner.rank == kNoOwner)
      not_kept(sample, size, counts);
    else
      kept(sample, size, counts, owner);
  }

  void add_to(Traffic& sum, std::vector<uint64_t>& unread_bytes) const {
    sum.read += traffic_.read;
    sum.covered += traffic_.covered;
    add_all(sum.kept, traffic_.kept);
    add_all(sum.local, traffic_.local);
    add_all(sum.peer, traffic_.peer);
    sum.source_first += traffic_.source_first;
    sum.source_later += traffic_.source_later;
    const auto& histogram = traffic_.access_histogram;
    if (sum.access_histogram.size() < histogram.size())
      sum.access_histogram.resize(histogram.size());
    for (size_t i = 0; i < histogram.size(); ++i) sum.access_histogram[i] += histogram[i];
    for (size_t i = 0; i < unread_bytes.size(); ++i) unread_bytes[i] += unread_bytes_[i];
  }

 private:
  void not_kept(uint64_t sample, uint64_t size, std::span<const RankCount> counts) {
    uint64_t reads = 0;
    for (const RankCount& entry : counts) reads += entry.count;
    uint64_t first = tally_.first_epoch() == 0 ? 1 : 0;
    for (const ExtraRead& extra : table_.extra_reads(sample)) first += extra.epoch == 0 ? 1 : 0;
    traffic_.source_first.add(first, size);
    traffic_.source_later.add(reads - first, size);
  }

  void kept(uint64_t sample, uint64_t size, std::span<const RankCount> counts, Owner owner) {
    traffic_.covered.add(1, size);
    traffic_.kept[owner.tier].add(1, size);
    const bool from_source = !counts.empty() && (held_.empty() || !held_[sample]);
    const uint32_t first_epoch = tally_.first_epoch();
    const uint32_t first_reader = counts.empty() ? kNoOwner : tally_.reader(first_epoch);
    if (from_source)
      (first_epoch == 0 ? traffic_.source_first : traffic_.source_later).add(1, size);
    const HoldingRule& holdings = placement_.holdings();
    for (const auto& [rank, count] : counts) {
      const uint64_t cached = count - (from_source && rank == first_reader ? 1 : 0);
      if (rank == owner.rank) {
        traffic_.local[owner.tier].add(cached, size);
        continue;
      }
      const uint32_t tier = holdings.empty() ? 0 : holdings.tier_of(rank, sample, count);
      if (!holdings.empty() && tier < holdings.tiers()) {
        traffic_.kept[tier].add(1, size);
        traffic_.local[tier].add(cached, size);
      } else {
        traffic_.peer[owner.tier].add(cached, size);
      }
    }
  }

  const ReaderTable& table_;
  const Sizes& sizes_;
  const Placement& placement_;
  const std::vector<bool>& held_;
  ReaderTable::Tally tally_;
  Traffic traffic_;
  std::vector<uint64_t> unread_bytes_;  // by row: samples nobody reads in that epoch
};

}  // namespace

Volume& Volume::operator+=(const Volume& other) {
  reads += other.reads;
  bytes += other.bytes;
  return *this;
}

Volume& Volume::operator*=(double factor) {
  reads = scaled(reads, factor);
  bytes = scaled(bytes, factor);
  return *this;
}

uint64_t source_lower_bound(std::span<const uint64_t> epoch_bytes, uint64_t capacity,
                            uint64_t held) {
  uint64_t sum = 0;
  for (size_t epoch = 0; epoch < epoch_bytes.size(); ++epoch) {
    const uint64_t spared = epoch == 0 ? held : capacity;
    if (epoch_bytes[epoch] > spared) sum += epoch_bytes[epoch] - spared;
  }
  return sum;
}

Result<Traffic> measure_traffic(const ReaderTable& table, const Sizes& sizes,
                                const Capacities& capacities, const Placement& placement,
                                uint64_t epochs, const PlacementOptions& options) {
  assert(epochs >= table.epochs());
  // A held copy spares the first read only if it found room where it lies.
  std::vector<bool> held(options.held.empty() ? 0 : sizes.samples());
  uint64_t held_bytes = 0;
  for (const Held& copy : options.held) {
    const Owner owner = placement.owner(copy.sample);
    if (owner.rank != copy.rank || owner.tier != copy.tier || held[copy.sample]) continue;
    held[copy.sample] = true;
    if (table.reader(0, copy.sample) < table.ranks()) held_bytes += sizes[copy.sample];
  }

  std::vector<Count> counts(options.threads,
                            Count(table, sizes, placement, capacities.tiers(), held));
  auto visit = [&](uint64_t first, uint64_t last, unsigned worker) {
    for (uint64_t sample = first; sample < last; ++sample) counts[worker].sample(sample);
  };
  FORELOAD_CHECK(for_sample_ranges(table.samples(), options.threads, visit, options.progress));
  Traffic traffic;
  for (auto* volumes : {&traffic.kept, &traffic.local, &traffic.peer})
    volumes->resize(capacities.tiers());
  std::vector<uint64_t> unread_bytes(table.epochs());
  for (const Count& count : counts) count.add_to(traffic, unread_bytes);

  uint64_t pairs = 0;  // of a rank and a sample that it reads
  for (const uint64_t entry : traffic.access_histogram) pairs += entry;
  traffic.access_histogram.resize(std::max<size_t>(1, traffic.access_histogram.size()));
  traffic.access_histogram[0] = table.samples() * table.ranks() - pairs;

  std::vector<uint64_t> epoch_bytes;
  for (const uint64_t unread : unread_bytes) epoch_bytes.push_back(sizes.total() - unread);
  traffic.source_bytes_lower_bound =
      source_lower_bound(epoch_bytes, capacities.total(), held_bytes);
  traffic.counted_epochs = table.epochs();

  // Epochs that were not looked at are like the later ones that were.
  if (epochs > table.epochs() && table.epochs() > 1) {
    const uint64_t later_bound = source_lower_bound(std::span(epoch_bytes).subspan(1),
                                                    capacities.total(), capacities.total());
    const double factor = static_cast<double>(epochs - 1) / static_cast<double>(table.epochs() - 1);
    traffic.source_bytes_lower_bound += scaled(later_bound, factor - 1);
    traffic.source_later *= factor;
    for (auto* volumes : {&traffic.local, &traffic.peer})
      for (Volume& volume : *volumes) volume *= factor;
    traffic.read = traffic.source_first;
    traffic.read += traffic.source_later;
    for (const auto* volumes : {&traffic.local, &traffic.peer})
      for (const Volume& volume : *volumes) traffic.read += volume;
  }
  return traffic;
}

Traffic expect_traffic(const Sizes& sizes, const Capacities& capacities, const Placement& placement,
                       const Sharding& first, const Sharding& later, uint64_t epochs) {
  Traffic traffic;
  for (auto* volumes : {&traffic.kept, &traffic.local, &traffic.peer})
    volumes->resize(capacities.tiers());
  const double mean = static_cast<double>(sizes.total()) / static_cast<double>(sizes.samples());
  auto volume = [mean](double reads) {
    return Volume{static_cast<uint64_t>(std::llround(reads)),
                  static_cast<uint64_t>(std::llround(reads * mean))};
  };
  std::vector<uint64_t> slots(capacities.tiers());
  placement.count_slots(slots);
  const auto first_reads = static_cast<double>(first.total());
  const auto later_reads = static_cast<double>(later.total()) * static_cast<double>(epochs - 1);
  uint64_t covered = 0;
  for (uint32_t tier = 0; tier < capacities.tiers(); ++tier) {
    const double share = static_cast<double>(slots[tier]) / static_cast<double>(sizes.samples());
    covered += slots[tier];
    traffic.kept[tier] = volume(static_cast<double>(slots[tier]));
    traffic.local[tier] = volume(later_reads * share / first.ranks);
    traffic.peer[tier] = volume(later_reads * share * (1 - 1.0 / first.ranks));
  }
  const double uncovered = 1 - static_cast<double>(covered) / static_cast<double>(sizes.samples());
  traffic.covered = volume(static_cast<double>(covered));
  traffic.source_first = volume(first_reads);
  traffic.source_later = volume(later_reads * uncovered);
  traffic.read = volume(first_reads + later_reads);

  auto distinct_bytes = [&](const Sharding& sharding) {
    return scaled(sizes.total(),
                  static_cast<double>(std::min(sharding.total(), sharding.remaining())) /
                      static_cast<double>(sizes.samples()));
  };
  const uint64_t first_bytes = distinct_bytes(first);
  const uint64_t later_bytes = distinct_bytes(later);
  const uint64_t spared = std::min(later_bytes, capacities.total());
  traffic.source_bytes_lower_bound = first_bytes + (epochs - 1) * (later_bytes - spared);
  return traffic;
}

}  // namespace foreload
