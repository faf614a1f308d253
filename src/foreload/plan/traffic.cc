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

template <class T>
void add_all(std::vector<T>& sum, const std::vector<T>& more) {
  if (sum.size() < more.size()) sum.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sum[i] += more[i];
}

PlannedTraffic with_tiers(uint32_t tiers) {
  PlannedTraffic traffic;
  for (auto* volumes : {&traffic.owned, &traffic.kept, &traffic.local, &traffic.peer})
    volumes->resize(tiers);
  return traffic;
}

// Sums over samples. They are of integers, so the order in which they are added does not matter.
struct Sums {
  Sums(uint32_t tiers, uint32_t epochs)
      : traffic(with_tiers(tiers)), unread_bytes(epochs), new_bytes(epochs) {}

  void add(const Sums& more) {
    traffic.read += more.traffic.read;
    traffic.covered += more.traffic.covered;
    add_all(traffic.owned, more.traffic.owned);
    add_all(traffic.kept, more.traffic.kept);
    add_all(traffic.local, more.traffic.local);
    add_all(traffic.peer, more.traffic.peer);
    traffic.source_first += more.traffic.source_first;
    traffic.source_later += more.traffic.source_later;
    add_all(traffic.access_histogram, more.traffic.access_histogram);
    add_all(unread_bytes, more.unread_bytes);
    add_all(new_bytes, more.new_bytes);
  }

  PlannedTraffic traffic;
  std::vector<uint64_t> unread_bytes;  // by row: samples nobody reads in that epoch
  std::vector<uint64_t> new_bytes;     // by row: samples neither held nor read before
};

// Counts sample by sample. One per worker.
class Counter {
 public:
  Counter(const ReaderTable& table, const Sizes& sizes, const Placement& placement, uint32_t tiers,
          const std::vector<bool>& held)
      : sums(tiers, table.epochs()),
        table_(table),
        sizes_(sizes),
        placement_(placement),
        held_(held),
        tally_(table) {}

  void count(uint64_t sample) {
    const uint64_t size = sizes_[sample];
    const auto counts = tally_.of(sample);
    if (tally_.epochs_read() < table_.epochs()) {
      for (uint32_t epoch = 0; epoch < table_.epochs(); ++epoch) {
        if (tally_.reader(epoch) == table_.ranks()) sums.unread_bytes[epoch] += size;
      }
    }
    const bool held = !held_.empty() && held_[sample];
    if (!counts.empty() && !held) sums.new_bytes[tally_.first_epoch()] += size;
    auto& histogram = sums.traffic.access_histogram;
    for (const RankCount& entry : counts) {
      sums.traffic.read.add(entry.count, size);
      if (entry.count >= histogram.size()) histogram.resize(entry.count + 1);
      ++histogram[entry.count];
    }
    const Owner owner = placement_.owner(sample);
    if (owner.rank == kNoOwner)
      count_not_kept(sample, size, counts);
    else
      count_kept(sample, size, counts, owner, held);
  }

  Sums sums;

 private:
  void count_not_kept(uint64_t sample, uint64_t size, std::span<const RankCount> counts) {
    uint64_t reads = 0;
    for (const RankCount& entry : counts) reads += entry.count;
    uint64_t first = tally_.first_epoch() == 0 ? 1 : 0;
    for (const ExtraRead& extra : table_.extra_reads(sample)) first += extra.epoch == 0 ? 1 : 0;
    sums.traffic.source_first.add(first, size);
    sums.traffic.source_later.add(reads - first, size);
  }

  void count_kept(uint64_t sample, uint64_t size, std::span<const RankCount> counts, Owner owner,
                  bool held) {
    PlannedTraffic& traffic = sums.traffic;
    traffic.covered.add(1, size);
    traffic.owned[owner.tier].add(1, size);
    traffic.kept[owner.tier].add(1, size);
    if (const uint32_t tier = placement_.backing(sample); tier != kNoTier)
      traffic.kept[tier].add(1, size);
    // The first read fills the copies, unless they were there before.
    uint32_t source_reader = kNoOwner;
    if (!counts.empty() && !held) {
      const uint32_t epoch = tally_.first_epoch();
      source_reader = tally_.reader(epoch);
      (epoch == 0 ? traffic.source_first : traffic.source_later).add(1, size);
    }
    for (const auto& [rank, count] : counts) {
      const uint64_t cached = count - (rank == source_reader ? 1 : 0);
      if (rank == owner.rank) {
        traffic.local[owner.tier].add(cached, size);
        continue;
      }
      const uint32_t tier = placement_.holdings().tier_of(rank, sample, count);
      if (tier < placement_.holdings().tiers()) {
        traffic.kept[tier].add(1, size);
        traffic.local[tier].add(cached, size);
      } else {
        traffic.peer[owner.tier].add(cached, size);
      }
    }
  }

  const ReaderTable& table_;
  const Sizes& sizes_;
  const Placement& placement_;
  const std::vector<bool>& held_;
  ReaderTable::Tally tally_;
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

uint64_t source_lower_bound(std::span<const uint64_t> epoch_bytes,
                            std::span<const uint64_t> seen_bytes, uint64_t capacity) {
  uint64_t sum = 0;
  for (size_t epoch = 0; epoch < epoch_bytes.size(); ++epoch) {
    const uint64_t spared = std::min(capacity, seen_bytes[epoch]);
    if (epoch_bytes[epoch] > spared) sum += epoch_bytes[epoch] - spared;
  }
  return sum;
}

Result<PlannedTraffic> measure_traffic(const ReaderTable& table, const Sizes& sizes,
                                       const Capacities& capacities, const Placement& placement,
                                       uint64_t epochs, const PlacementOptions& options) {
  assert(epochs >= table.epochs());
  // A held copy spares the first read only if it found room where it lies.
  std::vector<bool> held(options.held.empty() ? 0 : sizes.samples());
  uint64_t held_bytes = 0;
  for (const Held& copy : options.held) {
    const Owner owner = placement.owner(copy.sample);
    const bool stays = owner.tier == copy.tier || placement.backing(copy.sample) == copy.tier;
    if (owner.rank != copy.rank || !stays || held[copy.sample]) continue;
    held[copy.sample] = true;
    held_bytes += sizes[copy.sample];
  }

  std::vector<Counter> counters(options.threads,
                                Counter(table, sizes, placement, capacities.tiers(), held));
  auto visit = [&](uint64_t first, uint64_t last, unsigned worker) {
    for (uint64_t sample = first; sample < last; ++sample) counters[worker].count(sample);
  };
  FORELOAD_CHECK(for_sample_ranges(table.samples(), options.threads, visit, options.progress));
  Sums sums = std::move(counters[0].sums);
  for (unsigned worker = 1; worker < options.threads; ++worker) sums.add(counters[worker].sums);
  PlannedTraffic traffic = std::move(sums.traffic);

  uint64_t pairs = 0;  // of a rank and a sample that it reads
  for (const uint64_t entry : traffic.access_histogram) pairs += entry;
  traffic.access_histogram.resize(std::max<size_t>(1, traffic.access_histogram.size()));
  traffic.access_histogram[0] = table.samples() * table.ranks() - pairs;

  std::vector<uint64_t> epoch_bytes;
  std::vector<uint64_t> seen_bytes{held_bytes};
  for (uint32_t epoch = 0; epoch < table.epochs(); ++epoch) {
    epoch_bytes.push_back(sizes.total() - sums.unread_bytes[epoch]);
    seen_bytes.push_back(seen_bytes.back() + sums.new_bytes[epoch]);
  }
  auto bound_from = [&](uint32_t epoch) {
    return source_lower_bound(std::span(epoch_bytes).subspan(epoch),
                              std::span(seen_bytes).subspan(epoch), capacities.total());
  };
  traffic.source_bytes_lower_bound = bound_from(0);
  traffic.counted_epochs = table.epochs();

  // Epochs that were not looked at are like the later ones that were.
  if (epochs > table.epochs() && table.epochs() > 1) {
    const double factor = static_cast<double>(epochs - 1) / static_cast<double>(table.epochs() - 1);
    traffic.source_bytes_lower_bound += scaled(bound_from(1), factor - 1);
    traffic.source_later *= factor;
    traffic.read = traffic.source_first;
    traffic.read += traffic.source_later;
    for (auto* volumes : {&traffic.local, &traffic.peer}) {
      for (Volume& volume : *volumes) {
        volume *= factor;
        traffic.read += volume;
      }
    }
  }
  return traffic;
}

PlannedTraffic expect_traffic(const Sizes& sizes, const Capacities& capacities,
                              const Placement& placement, const Sharding& first,
                              const Sharding& later, uint64_t epochs) {
  const auto samples = static_cast<double>(sizes.samples());
  const double mean = static_cast<double>(sizes.total()) / samples;
  auto volume = [mean](double reads) {
    return Volume{static_cast<uint64_t>(std::llround(reads)),
                  static_cast<uint64_t>(std::llround(reads * mean))};
  };
  PlannedTraffic traffic = with_tiers(capacities.tiers());
  std::vector<uint64_t> slots(capacities.tiers());
  placement.count_slots(slots);
  const auto first_reads = static_cast<double>(first.total());
  const auto later_reads = static_cast<double>(later.total()) * static_cast<double>(epochs - 1);
  double covered = 0;
  for (uint32_t tier = 0; tier < capacities.tiers(); ++tier) {
    const auto kept = static_cast<double>(slots[tier]);
    covered += kept;
    traffic.owned[tier] = volume(kept);
    traffic.kept[tier] = traffic.owned[tier];
    traffic.local[tier] = volume(later_reads * kept / samples / first.ranks);
    traffic.peer[tier] = volume(later_reads * kept / samples * (1 - 1.0 / first.ranks));
  }
  traffic.covered = volume(covered);
  traffic.source_first = volume(first_reads);
  traffic.source_later = volume(later_reads * (1 - covered / samples));
  traffic.read = volume(first_reads + later_reads);

  auto distinct_bytes = [&](const Sharding& sharding) {
    const uint64_t distinct = std::min(sharding.total(), sharding.remaining());
    return scaled(sizes.total(), static_cast<double>(distinct) / samples);
  };
  const uint64_t first_bytes = distinct_bytes(first);
  const uint64_t later_bytes = distinct_bytes(later);
  const uint64_t spared = std::min(later_bytes, capacities.total());
  traffic.source_bytes_lower_bound = first_bytes + (epochs - 1) * (later_bytes - spared);
  return traffic;
}

}  // namespace foreload
