// SPDX-License-Identifier: Apache-2.0
#include "foreload/plan/holdings.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "foreload/base/parallel.h"
#include "foreload/base/random.h"

namespace foreload {

HoldingRule::HoldingRule(uint32_t ranks, uint32_t tiers, uint32_t highest_count, uint64_t seed)
    : tiers_(tiers),
      highest_count_(highest_count),
      seed_(seed),
      limits_(static_cast<size_t>(ranks) * tiers) {}

uint32_t HoldingRule::step(uint32_t rank, uint64_t sample, uint32_t count) const {
  const uint64_t hash = mix64(mix64(seed_ + rank) ^ sample);
  return (highest_count_ - count) * kStepsPerCount + static_cast<uint32_t>(hash >> 56);
}

void HoldingRule::set_limit(uint32_t rank, uint32_t tier, uint32_t limit) {
  limits_[static_cast<size_t>(rank) * tiers_ + tier] = limit;
}

uint32_t HoldingRule::tier_of(uint32_t rank, uint64_t sample, uint32_t count) const {
  if (tiers_ == 0) return 0;  // keeps nothing
  const uint32_t* limits = limits_.data() + static_cast<size_t>(rank) * tiers_;
  if (limits[tiers_ - 1] == 0) return tiers_;
  const uint32_t wanted = step(rank, sample, count);
  uint32_t tier = 0;
  while (tier < tiers_ && wanted >= limits[tier]) ++tier;
  return tier;
}

Result<void> for_sample_ranges(
    uint64_t samples, unsigned threads,
    const std::function<void(uint64_t first, uint64_t last, unsigned worker)>& visit,
    const Progress& progress) {
  constexpr uint64_t kRange = uint64_t{1} << 15;
  auto work = [&](uint64_t piece, unsigned worker) {
    visit(piece * kRange, std::min(samples, (piece + 1) * kRange), worker);
  };
  if (!parallel_for((samples + kRange - 1) / kRange, threads, work, progress))
    return fail(ErrorKind::cancelled, "planning was cancelled");
  return {};
}

Result<uint32_t> highest_access_count(const ReaderTable& table, const PlacementOptions& options) {
  std::vector<ReaderTable::Tally> tallies(options.threads, ReaderTable::Tally(table));
  std::vector<uint32_t> highest(options.threads, 0);
  auto visit = [&](uint64_t first, uint64_t last, unsigned worker) {
    for (uint64_t sample = first; sample < last; ++sample) {
      for (const RankCount& entry : tallies[worker].of(sample))
        highest[worker] = std::max(highest[worker], entry.count);
    }
  };
  FORELOAD_CHECK(for_sample_ranges(table.samples(), options.threads, visit, options.progress));
  return *std::max_element(highest.begin(), highest.end());
}

Result<HoldingRule> fill_by_count(const ReaderTable& table, const Sizes& sizes,
                                  std::span<const uint64_t> room, uint32_t highest_count,
                                  std::span<const uint32_t> owners,
                                  const PlacementOptions& options) {
  const uint32_t ranks = table.ranks();
  const auto tiers = static_cast<uint32_t>(room.size() / ranks);
  HoldingRule rule(ranks, tiers, highest_count, options.seed);
  const uint64_t steps = rule.steps();

  // Bytes by [rank][step]: what a rank would hold if it went up to that step.
  std::vector<ReaderTable::Tally> tallies(options.threads, ReaderTable::Tally(table));
  std::vector<std::vector<uint64_t>> bytes(options.threads, std::vector<uint64_t>(ranks * steps));
  auto visit = [&](uint64_t first, uint64_t last, unsigned worker) {
    for (uint64_t sample = first; sample < last; ++sample) {
      for (const auto& [rank, count] : tallies[worker].of(sample)) {
        if (!owners.empty() && owners[sample] == rank) continue;
        bytes[worker][rank * steps + rule.step(rank, sample, count)] += sizes[sample];
      }
    }
  };
  FORELOAD_CHECK(for_sample_ranges(table.samples(), options.threads, visit, options.progress));
  for (unsigned worker = 1; worker < options.threads; ++worker)
    std::transform(bytes[0].begin(), bytes[0].end(), bytes[worker].begin(), bytes[0].begin(),
                   std::plus<>());

  for (uint32_t rank = 0; rank < ranks; ++rank) {
    uint32_t step = 0;
    for (uint32_t tier = 0; tier < tiers; ++tier) {
      uint64_t left = room[rank * tiers + tier];
      while (step < steps && bytes[0][rank * steps + step] <= left) {
        left -= bytes[0][rank * steps + step];
        ++step;
      }
      rule.set_limit(rank, tier, step);
    }
  }
  return rule;
}

}  // namespace foreload
